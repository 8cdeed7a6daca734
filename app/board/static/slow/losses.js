// Lost updates, by the rule of loadtest/results/losses.py: what each write made of the counter, in the order of the ledger.

// The writes by their orders, each { section, was, counter, lost, soFar, number }. `lost` is negative if a purchase had
// read before sales were overwritten, and brings some back; `was` and `counter` are null if an old record has no values.
export function lossesOf({ sections, ledger, stock }) {
  const wrote = sectionsOf(sections);
  const counters = new Map();
  const writes = new Map();
  let soFar = 0;
  for (const [index, { order, item }] of ledger.entries()) {
    const section = wrote.get(order);
    const was = counters.has(item) ? counters.get(item) : stock;
    const counter = counterAfter(section, was);
    const lost = was == null || counter == null ? 0 : counter + 1 - was;
    counters.set(item, counter);
    soFar += lost;
    wrote.delete(order); // an order may be there twice
    if (!writes.has(order)) writes.set(order, { section, was, counter, lost, soFar, number: index + 1 });
  }
  return writes;
}

const isSale = ({ outcome, cause }) => outcome === "sold" && cause == null;

// The section that wrote each order: of its attempts the one that sold, or the last.
function sectionsOf(sections) {
  const wrote = new Map();
  for (const section of sections) {
    const found = wrote.get(section.order);
    if (section.cause !== "replayed" && !(found && isSale(found))) wrote.set(section.order, section);
  }
  return wrote;
}

// One less than the purchase had read, or than a script found.
function counterAfter(section, was) {
  if (section?.outcome === "sold" && section.stock != null) return section.stock;
  if (section?.stock_read != null) return section.stock_read - 1;
  return section?.read_ms != null || was == null ? null : was - 1;
}
