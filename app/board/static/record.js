// Recorded runs, as the panels show them at any moment: of a file, or one that the board has kept.

import { countBy } from "./dom.js";
import { messageText, text } from "./texts.js";

const FORMAT = "stock-flash-sale/record";
const NOBODY = { holder: null, waiters: [], waiting: 0 };

const latest = (times) => times.reduce((a, b) => Math.max(a, b), 0);

// The run of a record's content as { name, end, at(ms) }. Needs no server.
export function open(content, name) {
  const data = JSON.parse(content);
  if (data?.format !== FORMAT) throw new Error(text("problem.no_record"));
  if (data.version !== 1) throw new Error(text("problem.version", { version: data.version }));
  const { guard, scenario, stock: initial, verdict } = data;
  const events = data.events.map((event) => ({ ...event, text: messageText(event) }));
  const ended = {
    stock: verdict.stock_left,
    lost_updates: verdict.lost_updates,
    gave_up: verdict.outcomes?.lock_timeout,
    kind: verdict.kind,
    findings: verdict.findings,
  };
  return { name: [scenario, guard].filter(Boolean).join(", ") || name, record: data, ...replay({ ...data, events, initial, ended }) };
}

// A run that the board has kept, as { end, at(ms) }. Of its orders the board has only the ids, but each is a section that sold.
export function kept(sale, { orders, sections, source }) {
  const sold = sections.filter(({ outcome, cause }) => outcome === "sold" && !cause);
  const ledger = sold.map(({ instance, left_ms }) => ({ instance, at_ms: left_ms }));
  const record = { guard: sale.guard, stock: sale.initial, sections, ledger: orders.map((order) => ({ order })), source, verdict: { ...sale.findings, kind: sale.kind } };
  return { record, ...replay({ ...sale, ended: sale, ledger, sections, samples: [], answers: [], events: [] }) };
}

// `ended`: what is known of the sale at its end, and not from the rows.
function replay({ guard, initial, ended, sections, samples, answers, events, ...rows }) {
  const ledger = [...rows.ledger].sort((a, b) => a.at_ms - b.at_ms);
  const until = latest(sections.map((section) => section.left_ms ?? section.entered_ms));
  const end = latest([until, ...[...ledger, ...events].map((row) => row.at_ms), ...answers.map((answer) => answer.answered_ms)]);
  const stopped = samples.flatMap(({ frozen = [], dead = [] }) => [...frozen, ...dead]);
  const instances = recordedInstances([...[...ledger, ...sections].map((row) => row.instance), ...stopped]);

  function at(ms) {
    const over = ms >= end;
    const orders = ledger.filter((order) => order.at_ms <= ms);
    const sample = samples.findLast((each) => each.at_ms <= ms);
    const sale = {
      guard,
      initial,
      orders: orders.length,
      selling_ms: orders.length ? orders.at(-1).at_ms - orders[0].at_ms : null,
      by_instance: countBy(orders, (order) => order.instance),
      ...(over ? ended : soFar(initial, orders.length, sample)),
    };
    const begun = sections
      .filter((section) => section.entered_ms <= ms)
      .map((section) => (section.left_ms > ms ? { ...section, left_ms: null, outcome: null, cause: null, inside: true } : section));
    return {
      live: false,
      guard,
      sale,
      sections: begun,
      instances: over ? instances : instances.map((each) => ({ ...each, state: stateOf(each, sample) })),
      queue: over ? NOBODY : queueOf(sample),
      runs: [{ ...sale, current: true }],
      over,
      now_ms: ms,
      until,
      end,
      events: events.filter((event) => event.at_ms <= ms),
      answers: answers.length ? answers.filter((answer) => answer.answered_ms <= ms) : null,
    };
  }

  return { end, at };
}

// What ledger and counter tell before the end. The counter was sampled, together with the ledger of that moment.
function soFar(initial, orders, sample) {
  const drift = sample?.stock == null ? null : sample.orders + sample.stock - initial;
  const oversold = Math.max(0, orders - initial);
  const undersold = oversold || drift === null ? 0 : Math.max(0, -drift);
  const lost_updates = drift && Math.max(0, drift);
  const kind = oversold ? "oversold" : undersold ? "undersold" : lost_updates ? "flawed" : "exact";
  const findings = oversold ? { oversold } : undersold ? { undersold } : lost_updates ? { lost_updates } : { exact: 0 };
  return { stock: sample?.stock, lost_updates, kind, findings };
}

function queueOf(sample) {
  if (sample?.waiters == null) return null;
  const holder = sample.holder && { instance: sample.holder, token: null, ttl_s: sample.lease_s, granted_s: sample.granted_s };
  return { holder, waiters: [], waiting: sample.waiters };
}

// What a record has of an instance at that moment.
function stateOf({ name, state }, sample) {
  if (sample?.frozen?.includes(name)) return "frozen";
  return sample?.dead?.includes(name) ? "down" : state;
}

// Instances of which nothing but the name is known.
export function recordedInstances(names) {
  return [...new Set(names)].sort().map((name) => ({ name, state: "recorded", queued: null, workers: [] }));
}
