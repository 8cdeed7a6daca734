// Runs that are over, as the panels show them: one of a recorded file, or one that the board has kept.

import { countBy } from "./dom.js";

const FORMAT = "stock-flash-sale/record";

// The view of a record. Needs no server.
export function open(text, name) {
  const data = JSON.parse(text);
  if (data?.format !== FORMAT) throw new Error("it is not a record of this project");
  if (data.version !== 1) throw new Error(`it is version ${data.version}, and this page reads version 1`);
  const { guard, scenario, stock: initial, verdict, ledger, sections, events } = data;
  const times = ledger.map((order) => order.at_ms).sort((a, b) => a - b);
  const sale = {
    guard,
    initial,
    stock: verdict.stock_left,
    orders: ledger.length,
    lost_updates: verdict.lost_updates,
    gave_up: verdict.outcomes?.lock_timeout,
    busy: verdict.outcomes?.busy,
    verdict: verdict.verdict,
    selling_ms: times.length ? times.at(-1) - times[0] : null,
    by_instance: countBy(ledger, (order) => order.instance),
  };
  return { ...endedView(sale, sections, events), name: [scenario, guard].filter(Boolean).join(", ") || name };
}

// The view of a run whose `sale` is that of the board's stream.
export function endedView(sale, sections, events = []) {
  const names = new Set([...Object.keys(sale.by_instance), ...sections.map((section) => section.instance)]);
  const instances = [...names].sort().map((name) => ({ name, state: "recorded", queued: null, workers: [] }));
  const queue = { holder: null, waiters: [], waiting: 0 };
  return { live: false, over: true, guard: sale.guard, sale, sections, events, queue, instances, runs: [{ ...sale, current: true }] };
}
