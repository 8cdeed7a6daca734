// A recorded run, and its state at any moment. Needs no server.

import { verdictOf } from "./verdict.js";

const FORMAT = "stock-flash-sale/record";

export class NoRecord extends Error {}

// A record of one run, as something that `at(ms)` shows.
export function open(text, name) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new NoRecord(`${name} is not JSON.`);
  }
  if (data?.format !== FORMAT) throw new NoRecord(`${name} is not a record of this project.`);
  if (data.version !== 1) throw new NoRecord(`${name} is version ${data.version}, and this page reads version 1.`);
  return new Recorded(data, name);
}

const last = (rows, ms, time) => rows.findLast((row) => time(row) <= ms);

class Recorded {
  constructor(data, name) {
    this.data = data;
    this.name = [data.scenario, data.guard].filter(Boolean).join(", ") || name;
    this.ledger = [...data.ledger].sort((a, b) => a.at_ms - b.at_ms);
    this.sections = data.sections.map((section, number) => ({ number, ...section }));
    const times = [
      ...this.ledger.map((order) => order.at_ms),
      ...this.sections.map((section) => section.left_ms ?? section.entered_ms),
      ...data.answers.map((answer) => answer.answered_ms),
      ...data.events.map((event) => event.at_ms),
    ].filter((time) => time != null);
    const names = new Set([...this.ledger, ...this.sections].map((row) => row.instance));
    this.instances = [...names].sort().map((name) => ({ name, state: "recorded", queued: null, workers: [] }));
    this.end = times.reduce((a, b) => Math.max(a, b), 1);
    const first = [...this.sections.map((section) => section.entered_ms), ...this.ledger.map((order) => order.at_ms)];
    // Before the first section buyers only connect.
    this.begin = Math.max(0, first.reduce((a, b) => Math.min(a, b), this.end) - this.end * 0.02);
  }

  at(ms) {
    const over = ms >= this.end;
    const sample = last(this.data.samples, ms, (each) => each.at_ms);
    const orders = this.ledger.filter((order) => order.at_ms <= ms);
    const initial = this.data.stock;
    const sale = { initial, orders: orders.length, ...this.#counted(over, sample), gave_up: over ? this.data.verdict.outcomes?.lock_timeout ?? this.data.verdict.gave_up : 0, busy: over ? this.data.verdict.outcomes?.busy ?? this.data.verdict.busy : 0 };
    // If the counter is unknown, the ledger decides.
    const sampled = sale.stock != null && orders.length <= initial;
    sale.verdict = over ? this.data.verdict.verdict : verdictOf({ initial, ...(sampled ? { stock: sale.stock, orders: sale.lost_updates + initial - sale.stock } : { orders: orders.length }) });
    const sections = this.sections.filter((section) => section.entered_ms <= ms);
    const inside = sections.filter((section) => section.left_ms != null && section.left_ms > ms);
    return {
      live: false,
      over,
      now_ms: ms,
      guard: this.data.guard,
      sale,
      orders,
      sections: sections.map((section) => (section.left_ms > ms ? { ...section, left_ms: null, outcome: null, inside: true } : section)),
      events: this.data.events.filter((event) => event.at_ms <= ms),
      queue: { holder: over ? null : holderOf(sample, inside), waiters: [], waiting: over ? 0 : (sample?.waiters ?? 0) },
      pending: this.data.answers.filter((answer) => answer.sent_ms <= ms && answer.answered_ms > ms).length,
      instances: this.instances,
      answers: this.data.answers.filter((answer) => answer.answered_ms <= ms),
      runs: [{ ...this.data.verdict, guard: this.data.guard, initial, orders: orders.length, verdict: sale.verdict, selling_ms: span(orders), current: true, stock: sale.stock, over }],
    };
  }

  // The counter, if it was sampled, with the ledger of the same moment.
  #counted(over, sample) {
    const { stock, orders } = over ? { stock: this.data.verdict.stock_left, orders: this.data.verdict.orders } : (sample ?? {});
    return stock == null || orders == null ? { stock: null, lost_updates: null } : { stock, lost_updates: orders + stock - this.data.stock };
  }
}

// A section with a fencing token holds the lock; of two, the sampled holder's does, and else the newer one.
function holderOf(sample, inside) {
  const holders = inside.filter((each) => each.token != null);
  const section = holders.find((each) => each.instance === sample?.holder) ?? holders.at(-1);
  const instance = sample?.holder ?? section?.instance;
  return instance ? { instance, token: section?.token ?? null, ttl_s: null } : null;
}

const span = (orders) => (orders.length ? orders.at(-1).at_ms - orders[0].at_ms : null);
