// Critical sections that were open at the same time.

// Sections as { begin, end, ... } in the order of their beginning, each with a lane and a row in it.
export function layOut(view) {
  const now = view.now_ms ?? 0;
  const instances = new Map(view.instances.map((each) => [each.name, each]));
  const bars = view.sections
    .map((section) => {
      const open = section.left_ms == null;
      const died = open && isDead(section, instances.get(section.instance), view.live);
      return { section, open: open && !died, died, begin: section.entered_ms, end: open ? (died ? section.entered_ms : Math.max(now, section.entered_ms)) : section.left_ms };
    })
    .sort((a, b) => a.begin - b.begin || a.end - b.end);
  const lanes = new Map();
  for (const bar of bars) {
    const key = `${bar.section.instance} ${bar.section.pid}`;
    if (!lanes.has(key)) lanes.set(key, { name: bar.section.instance, pid: bar.section.pid, ends: [] });
    const lane = lanes.get(key);
    let row = lane.ends.findIndex((end) => end <= bar.begin);
    if (row < 0) row = lane.ends.length;
    lane.ends[row] = bar.end;
    Object.assign(bar, { lane, row });
  }
  return { bars, lanes: [...lanes.values()].sort((a, b) => (a.name + a.pid < b.name + b.pid ? -1 : 1)) };
}

// A section of a process that is gone never ends; one of a frozen process may. A container's next process may have its id.
function isDead(section, instance, live) {
  if (section.inside) return false;
  if (!live) return true;
  if (!instance) return false;
  const isOf = ({ pid, began_ms }) => pid === section.pid && began_ms <= section.entered_ms;
  return instance.state === "down" || (instance.workers.length > 0 && !instance.workers.some(isOf));
}

// Sections of one hold do not count as two.
const holdOf = ({ instance, pid, token, order }) => [instance, pid, token == null ? order : JSON.stringify(token)].join();
const itemsOf = ({ item }) => (item ?? "1").split(",");

// The number inside at once, as steps of [time, number]; marks every bar that was not alone. The rule of
// loadtest/results/overlaps.py; both are held to tests/data/overlaps.json. `bars` are in the order of entering.
export function sweep(bars) {
  let inside = [];
  for (const bar of bars) Object.assign(bar, { together: 0, hold: holdOf(bar.section), items: itemsOf(bar.section) });
  const known = bars.filter((bar) => !bar.died);
  for (const bar of known) {
    inside = inside.filter((other) => other.end > bar.begin || other.open);
    const met = inside.filter((other) => other.hold !== bar.hold && other.items.some((item) => bar.items.includes(item)));
    for (const other of met) other.together += 1;
    bar.together = met.length;
    inside.push(bar);
  }
  const steps = stepsOf(known);
  return { steps, most: steps.reduce((most, [, level]) => Math.max(most, level), 0), overlapping: bars.filter((bar) => bar.together > 0).length };
}

// The number of holds that are inside for the same item, at its maximum over all items.
function stepsOf(bars) {
  const changes = bars.filter((bar) => bar.end > bar.begin || bar.open).flatMap((bar) => [[bar.begin, 1, bar], [bar.end, -1, bar]]);
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const counts = new Map(); // of each item, how many sections each hold has
  const steps = [[0, 0]];
  for (const [time, change, { hold, items }] of changes) {
    for (const item of items) {
      const holds = counts.get(item) ?? counts.set(item, new Map()).get(item);
      const number = (holds.get(hold) ?? 0) + change;
      if (number) holds.set(hold, number);
      else holds.delete(hold);
    }
    const level = Math.max(...[...counts.values()].map((holds) => holds.size));
    if (steps.at(-1)[0] === time) steps.at(-1)[1] = level;
    else steps.push([time, level]);
  }
  return steps;
}
