// Who was in a critical section together with whom.

// Sections as { begin, end, index, ... } in the order of their beginning, each with a lane and a row in it.
export function layOut(view) {
  const now = view.now_ms ?? 0;
  const pids = new Map(view.instances.map((each) => [each.name, each]));
  const bars = view.sections
    .map((section) => {
      const open = section.left_ms == null;
      const died = open && isDead(section, pids.get(section.instance), view.live);
      return { section, open: open && !died, died, begin: section.entered_ms, end: open ? (died ? section.entered_ms : Math.max(now, section.entered_ms)) : section.left_ms };
    })
    .sort((a, b) => a.begin - b.begin || a.end - b.end);
  const lanes = new Map();
  for (const bar of bars) {
    const key = `${bar.section.instance} ${bar.section.pid}`;
    if (!lanes.has(key)) lanes.set(key, { name: bar.section.instance, pid: bar.section.pid, ends: [], bars: [] });
    const lane = lanes.get(key);
    let row = lane.ends.findIndex((end) => end <= bar.begin);
    if (row < 0) row = lane.ends.length;
    lane.ends[row] = bar.end;
    Object.assign(bar, { lane, row });
    lane.bars.push(bar);
  }
  return { bars, lanes: [...lanes.values()].sort((a, b) => (a.name + a.pid < b.name + b.pid ? -1 : 1)) };
}

// A section of a process that is gone will never end; of a frozen one it may.
function isDead(section, instance, live) {
  if (section.inside) return false;
  if (!live) return true;
  if (!instance) return false;
  return instance.state === "away" || (instance.pids.length > 0 && !instance.pids.includes(section.pid));
}

// How many were inside at once, as steps of [time, number]; marks every bar that was not alone.
export function sweep(bars) {
  const events = bars.flatMap((bar) => (bar.end > bar.begin || bar.open ? [[bar.begin, 1, bar], [bar.end, -1, bar]] : []));
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const inside = new Set();
  const steps = [[0, 0]];
  let most = 0;
  for (const bar of bars) bar.together = 0;
  for (const [time, change, bar] of events) {
    if (change > 0) {
      for (const other of inside) other.together += 1;
      bar.together += inside.size;
      inside.add(bar);
    } else inside.delete(bar);
    most = Math.max(most, inside.size);
    if (steps.at(-1)[0] === time) steps.at(-1)[1] = inside.size;
    else steps.push([time, inside.size]);
  }
  return { steps, most, overlapping: bars.filter((bar) => bar.together > 0).length };
}
