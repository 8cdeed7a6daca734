// The parts of the timeline as SVG: lanes, bars, shades where several were inside, events, and the axis of time.

import { count, rem, svgEl, textWidth } from "./dom.js";

const MOST_EVENT_ROWS = 3;
export const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6];

// `place` has { bars, lanes, steps, most, events, x, from, to, left, width, top, bottom, line }.
export function draw(place) {
  placeLanes(place);
  // Names last, or lines would cross them.
  return [...shades(place), ...axis(place), ...levels(place), ...bars(place), ...drawEvents(place), ...lanes(place)];
}

const box = (x, y, width, height) => `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`;
const cross = (x, y) => `M${x - 4} ${y - 4}l8 8m0-8l-8 8`;
const path = (name, d, more = {}) => (d ? [svgEl("path", { class: name, d, ...more })] : []);

function label(name, x, y, text) {
  const node = svgEl("text", { class: name, x, y });
  node.textContent = text;
  return node;
}

// Names stand left of the lanes, or on top if the page is narrow.
function placeLanes({ lanes, left, top, bottom, line }) {
  const height = (bottom - top) / Math.max(lanes.length, 1);
  const title = Math.min(left ? 0.3 * line : line, 0.3 * height); // of many lanes, each is lower than a line of text
  const gap = Math.min(0.3 * line, 0.2 * height);
  lanes.forEach((lane, index) => {
    lane.top = top + index * height;
    lane.height = height;
    lane.y = lane.top + title;
    lane.pitch = Math.min((height - title - gap) / lane.ends.length, 4 * line);
  });
}

export function rectOf(bar, { x }) {
  const { y, pitch } = bar.lane;
  return { x: x(bar.begin), y: y + bar.row * pitch, width: Math.max(x(bar.end) - x(bar.begin), 1), height: Math.max(pitch * 0.86, 1) };
}

function shades({ steps, x, from, to, top, bottom }) {
  const several = steps.flatMap(([begin, inside], index) => {
    const end = steps[index + 1]?.[0];
    return inside > 1 && end >= from && begin <= to ? [[Math.max(begin, from), Math.min(end, to)]] : [];
  });
  return path("band", several.map(([begin, end]) => box(x(begin), top, Math.max(x(end) - x(begin), 0.6), bottom - top)).join(""));
}

// The number inside at once, as steps above the lanes; more than one stands out.
function levels({ steps, most, x, from, to, left, top, line }) {
  const inside = steps.filter(([time]) => time >= from && time <= to);
  const area = (least, largest) => {
    if (most <= least || !inside.length) return "";
    const y = (number) => (top - 3 - (Math.min(Math.max(number, least), largest) / Math.max(most, 2)) * (top - 6)).toFixed(1);
    return `M${x(from).toFixed(1)} ${y(0)}${inside.map(([time, number]) => `H${x(time).toFixed(1)}V${y(number)}`).join("")}H${x(to).toFixed(1)}V${y(0)}z`;
  };
  const name = left && most ? [label("lane-note", 0, top - 0.5 * line, most > 1 ? `up to ${count(most)} at once` : "one at a time")] : [];
  return [...path("level", area(0, 1)), ...path("level over", area(1, Infinity)), ...name];
}

function lanes({ lanes, left, width, line }) {
  const named = Math.ceil((1.1 * line) / (lanes[0]?.height ?? line)); // every one, or as many as there is room for
  return lanes.flatMap(({ name, pid, top, height }, index) => {
    const rule = svgEl("line", { class: "lane-line", x1: 0, x2: width, y1: top, y2: top });
    if (index % named) return [rule];
    if (!left) return [rule, label("lane-title", 2, top + 0.8 * line, `${name} · worker ${pid}`)];
    const note = height > 2.6 * line ? [label("lane-note", 0, top + 2.2 * line, `worker ${pid}`)] : [];
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

function axis({ bars, events, x, from, to, left, width, top, bottom, line }) {
  if (!bars.length) return [];
  const zero = bars[0].begin;
  const most = Math.max(3, (width - left) / (6 * line));
  const step = TICKS.find((tick) => (to - from) / tick <= most) ?? TICKS.at(-1);
  const y = bottom + (events.rows + 1) * line;
  const shapes = [];
  for (let tick = Math.ceil((from - zero) / step) * step; tick <= to - zero; tick += step) {
    const at = x(zero + tick);
    const text = tick >= 1000 ? `${+(tick / 1000).toFixed(3)} s` : `${+tick.toFixed(1)} ms`;
    shapes.push(svgEl("line", { class: "tick-line", x1: at, x2: at, y1: top, y2: bottom }), label("tick", Math.min(at + 3, width - 3 * line), y, text));
  }
  return shapes;
}

// Each text in the first row that has room for it; { rows, marks }. A mark without a row has only a line.
export function packEvents(events, x, width) {
  const gap = 0.4 * rem();
  const ends = [];
  const marks = [...events].sort((a, b) => a.at_ms - b.at_ms).map(({ at_ms, text: whole }) => {
    const at = x(at_ms);
    const text = shortened(whole, width - 2 * gap);
    const length = textWidth(text) + 2 * gap;
    const begin = at + length <= width ? at : Math.max(0, at - length);
    let row = ends.findIndex((end) => end <= begin);
    if (row < 0) row = ends.length;
    if (row < MOST_EVENT_ROWS) ends[row] = begin + length;
    return { at, text, begin: begin + gap, row };
  });
  return { rows: ends.length, marks };
}

function shortened(text, width) {
  if (textWidth(text) <= width) return text;
  let length = text.length;
  while (length && textWidth(`${text.slice(0, length)}…`) > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

// An event is a line at its time, and a text below the lanes.
function drawEvents({ events, top, bottom, line }) {
  const drawn = events.marks.map(({ at, text, begin, row }) => {
    const shown = row < MOST_EVENT_ROWS;
    const rule = svgEl("line", { class: "event-line", x1: at, x2: at, y1: top, y2: bottom + (shown ? row + 0.9 : 0) * line });
    const title = svgEl(shown ? "text" : "title", { class: "event", x: begin, y: bottom + (row + 0.8) * line });
    title.textContent = text;
    if (!shown) rule.append(title);
    return { rule, title: shown ? [title] : [] };
  });
  // Texts last, or lines would cross them.
  return [...drawn.map(({ rule }) => rule), ...drawn.flatMap(({ title }) => title)];
}
