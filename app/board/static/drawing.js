// The parts of the timeline as SVG: lanes, bars, shades where several were inside, events, and the axis of time.

import { svgEl } from "./dom.js";
import { text } from "./texts.js";

export const EVENT_ROWS = 4;
export const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6];

// `place` has { bars, lanes, spans, events, x, from, to, left, width, bottom, line }.
export function draw(place) {
  placeLanes(place);
  // Names last, or lines would cross them.
  return [...shades(place), ...axis(place), ...bars(place), ...drawEvents(place), ...lanes(place)];
}

const box = (x, y, width, height) => `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`;
const cross = (x, y) => `M${x - 4} ${y - 4}l8 8m0-8l-8 8`;
const path = (name, d, more = {}) => (d ? [svgEl("path", { class: name, d, ...more })] : []);

function label(name, x, y, content) {
  const node = svgEl("text", { class: name, x, y });
  node.textContent = content;
  return node;
}

// Names stand left of the lanes, or on top if the page is narrow.
function placeLanes({ lanes, left, bottom, line }) {
  const height = bottom / Math.max(lanes.length, 1);
  const title = Math.min(left ? 0.3 * line : line, 0.3 * height); // of many lanes, each is lower than a line of text
  const gap = Math.min(0.3 * line, 0.2 * height);
  lanes.forEach((lane, index) => {
    lane.top = index * height;
    lane.height = height;
    lane.y = lane.top + title;
    lane.pitch = Math.min((height - title - gap) / lane.ends.length, 4 * line);
  });
}

export function rectOf(bar, { x }) {
  const { y, pitch } = bar.lane;
  return { x: x(bar.begin), y: y + bar.row * pitch, width: Math.max(x(bar.end) - x(bar.begin), 1), height: Math.max(pitch * 0.86, 1) };
}

function shades({ spans, x, from, to, bottom }) {
  const shown = spans.filter(([begin, end]) => end >= from && begin <= to);
  const shade = ([begin, end]) => {
    const left = x(Math.max(begin, from));
    return box(left, 0, Math.max(x(Math.min(end, to)) - left, 0.6), bottom);
  };
  return path("band", shown.map(shade).join(""));
}

function lanes({ lanes, left, width, line, workers }) {
  const named = Math.ceil((1.1 * line) / (lanes[0]?.height ?? line)); // every one, or as many as there is room for
  return lanes.flatMap(({ name, pid, top, height }, index) => {
    const rule = svgEl("line", { class: "lane-line", x1: 0, x2: width, y1: top, y2: top });
    if (index % named) return [rule];
    if (!left) return [rule, label("lane-title", 2, top + 0.8 * line, workers ? `${name} · ${text("worker", { pid: String(pid) })}` : name)];
    const note = workers && height > 2.6 * line ? [label("lane-note", 0, top + 2.2 * line, text("worker", { pid: String(pid) }))] : [];
    return [rule, label("lane-title", 0, top + 1.1 * line, name), ...note];
  });
}

function bars(place) {
  const { bars, lanes, from, to } = place;
  const seen = bars.filter((bar) => bar.end >= from && bar.begin <= to);
  const shape = (bar) => {
    const { x, y, width, height } = rectOf(bar, place);
    return box(x, y, width, height);
  };
  const shapes = lanes.flatMap((lane) => {
    const own = seen.filter((bar) => bar.lane === lane);
    return path(`bars instance-${lane.colour}`, own.map(shape).join(""), { "data-instance": lane.name });
  });
  const died = seen.filter((bar) => bar.died).map((bar) => rectOf(bar, place));
  return [...shapes, ...path("died", died.map(({ x, y }) => cross(x, y + 5)).join(""))];
}

function axis({ bars, events, x, from, to, left, width, bottom, line }) {
  const zero = bars[0].begin;
  const most = Math.max(3, (width - left) / (6 * line));
  const step = TICKS.find((tick) => (to - from) / tick <= most) ?? TICKS.at(-1);
  const y = bottom + (Math.min(events.length, EVENT_ROWS) + 1) * line;
  const shapes = [];
  for (let tick = Math.ceil((from - zero) / step) * step; tick <= to - zero; tick += step) {
    const at = x(zero + tick);
    const told = tick >= 1000 ? `${+(tick / 1000).toFixed(3)} s` : `${+tick.toFixed(1)} ms`;
    const half = 0.22 * line * told.length;
    shapes.push(svgEl("line", { class: "tick-line", x1: at, x2: at, y1: 0, y2: bottom }));
    if (at + half > width) continue; // a label stands below its line, or nowhere
    const name = label("tick", Math.max(at, half), y, told);
    name.setAttribute("text-anchor", "middle");
    shapes.push(name);
  }
  return shapes;
}

// An event is a line at its time, and a text in its own row below the lanes, to the side that has more room.
function drawEvents({ events, x, width, bottom, line }) {
  const drawn = events.map(({ at_ms, text: what }, index) => {
    const at = x(at_ms);
    const y = bottom + ((index % EVENT_ROWS) + 0.8) * line;
    const [gap, anchor] = at < width / 2 ? [6, "start"] : [-6, "end"];
    const rule = svgEl("line", { class: "event-line", x1: at, x2: at, y1: 0, y2: y });
    const title = label("event", at + gap, y, what);
    title.setAttribute("text-anchor", anchor);
    return { rule, title };
  });
  // Texts last, or lines would cross them.
  return [...drawn.map(({ rule }) => rule), ...drawn.map(({ title }) => title)];
}
