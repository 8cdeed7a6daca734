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
  if (!live) return !section.inside;
  if (!instance) return false;
  const isOf = ({ pid, began_ms }) => pid === section.pid && began_ms <= section.entered_ms;
  return instance.state === "down" || (instance.workers.length > 0 && !instance.workers.some(isOf));
}

// Sections of one hold do not count as two.
const holdOf = ({ instance, pid, token, order }) => [instance, pid, token == null ? order : JSON.stringify(token)].join();

// The spans with several inside, the most at once, and the number of bars that were not alone; marks each bar with how
// many it met. The rule of loadtest/results/overlaps.py; both are held to tests/data/overlaps.json. `bars` are in the
// order of entering.
export function sweep(bars) {
  let inside = [];
  let most = 0;
  const spans = [];
  for (const bar of bars) Object.assign(bar, { together: 0, hold: holdOf(bar.section), item: bar.section.item });
  for (const bar of bars.filter((bar) => !bar.died)) {
    inside = inside.filter((other) => other.end > bar.begin || other.open);
    const met = inside.filter((other) => other.hold !== bar.hold && other.item === bar.item);
    for (const other of met) other.together += 1;
    bar.together = met.length;
    most = Math.max(most, new Set(met.map((other) => other.hold)).size + 1);
    if (met.length) extend(spans, bar.begin, Math.min(bar.end, Math.max(...met.map((other) => other.end))));
    inside.push(bar);
  }
  return { spans, most, overlapping: bars.filter((bar) => bar.together > 0).length };
}

// Adds a span that begins no earlier than the last one.
function extend(spans, begin, end) {
  const last = spans.at(-1);
  if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
  else spans.push([begin, end]);
}
