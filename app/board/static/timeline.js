// A lane for each worker process, a bar for each critical section, a shade where two were inside at once.

import { $, countBy, duration, rem, say, setAll, textWidth, tokenText } from "./dom.js";
import { draw, EVENT_ROWS, rectOf, TICKS } from "./drawing.js";
import { layOut, sweep } from "./overlaps.js";
import { count, named, text } from "./texts.js";
import { toneOf } from "./verdict.js";

const MOST_BARS = 6000;
const MOST_ZOOM = 1024;
const NARROW = 34; // times the size of the text: up to this width names stand above the lanes
const keyOf = ({ order, entered_ms }) => `${order} ${entered_ms}`; // all attempts of one order share its id

export class Timeline {
  #key = "";
  #place = null; // what is drawn, and where
  #chosen = null; // the key of the section that is described
  #zoom = 1;

  constructor(svg) {
    this.svg = svg;
    for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, (event) => this.#choose(this.#at(event)));
    svg.addEventListener("keydown", (event) => this.#press(event));
    $("zoom-in").addEventListener("click", () => this.#scale(2));
    $("zoom-out").addEventListener("click", () => this.#scale(0.5));
  }

  show(view) {
    this.view = view;
    $("no-sections").hidden = view.sections.length > 0;
    const inside = view.sections.filter((section) => section.left_ms == null).length;
    const { clientWidth, clientHeight } = this.svg;
    const key = [view.sections.length, inside, view.sections[0]?.order, inside && view.now_ms, clientWidth, clientHeight, this.#zoom, view.events.length, view.sale?.kind, view.details].join();
    if (key === this.#key || !clientWidth) return;
    this.#key = key;
    this.#draw(view, clientWidth, clientHeight);
  }

  #draw(view, width, height) {
    const shown = view.sections.length > MOST_BARS ? { ...view, sections: view.sections.slice(-MOST_BARS) } : view;
    const { bars, lanes } = layOut(shown);
    const found = sweep(bars);
    const names = [...new Set([...view.instances, ...lanes].map((each) => each.name))];
    for (const lane of lanes) lane.colour = names.indexOf(lane.name) % 4; // as everywhere on the page
    const [from, to] = this.#window(bars, view);
    const line = 1.15 * rem();
    const words = lanes.flatMap(({ name, pid }) => (view.details ? [name, text("worker", { pid: String(pid) })] : [name]));
    const left = width > NARROW * rem() ? Math.max(0, ...words.map(textWidth)) + line : 0;
    const x = (ms) => left + ((ms - from) / (to - from)) * (width - left);
    const events = view.events.filter((event) => event.at_ms >= from && event.at_ms <= to);
    const bottom = height - (1.3 + Math.min(events.length, EVENT_ROWS)) * line;
    this.#place = { bars, lanes, spans: found.spans, events, x, from, to, left, width, bottom, line, workers: view.details };
    // A guard that is exact without excluding others may have overlaps: they are shaded as a fault only if too much was sold.
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}`, "data-tone": toneOf(view.sale ?? {}) });
    this.svg.querySelector("g").replaceChildren(...(bars.length ? draw(this.#place) : []));
    this.#note(view, bars, found);
    this.#mark();
  }

  // The time that is shown: of a recorded run all of it. In a live run it grows in steps, and the bars stand still in between.
  #window(bars, { live, until }) {
    if (!bars.length) return [0, 1];
    const begin = bars[0].begin;
    const end = bars.reduce((most, bar) => Math.max(most, bar.end), until ?? begin + 1);
    const step = TICKS.find((tick) => tick * 10 >= end - begin) ?? TICKS.at(-1);
    const span = live ? Math.ceil((end - begin) / step) * step : (end - begin) * 1.01;
    if (this.#zoom === 1) return [begin, begin + span];
    const chosen = bars.find((bar) => keyOf(bar.section) === this.#chosen);
    const middle = chosen ? (chosen.begin + chosen.end) / 2 : begin + span / 2;
    const half = span / this.#zoom / 2;
    const from = Math.min(Math.max(begin, middle - half), begin + span - 2 * half);
    return [from, from + 2 * half];
  }

  #note(view, bars, { most, overlapping }) {
    const parts = bars.length ? [text("sections.note", { n: bars.length })] : [];
    if (view.sections.length > MOST_BARS) parts.push(text("sections.cut", { last: MOST_BARS, all: view.sections.length }));
    if (view.details) parts.push(...kinds(bars));
    if (bars.length) parts.push(overlapping ? text("sections.together", { n: overlapping, most }) : text("sections.alone"));
    say($("timeline-note"), parts.join(" · "));
  }

  #at(event) {
    if (!this.#place) return null;
    const outline = this.svg.getBoundingClientRect();
    const [px, py] = [event.clientX - outline.left, event.clientY - outline.top];
    const { bars, x } = this.#place;
    const near = bars.filter(({ begin, end, lane }) => px >= x(begin) - 3 && px <= x(end) + 3 && py >= lane.top && py <= lane.top + lane.height);
    const distance = (bar) => Math.abs(py - (bar.lane.y + (bar.row + 0.5) * bar.lane.pitch)) + Math.abs(px - (x(bar.begin) + x(bar.end)) / 2) / 1000;
    return near.sort((a, b) => distance(a) - distance(b))[0] ?? null;
  }

  #choose(bar) {
    if (!bar || keyOf(bar.section) === this.#chosen) return;
    this.#chosen = keyOf(bar.section);
    this.#mark();
  }

  #mark() {
    const { bars } = this.#place;
    const bar = bars.find((each) => keyOf(each.section) === this.#chosen);
    say($("detail"), bar ? describe(bar, bars[0].begin) : bars.length ? text("sections.hint") : "");
    const cursor = this.svg.lastElementChild;
    if (!bar) return setAll(cursor, { visibility: "hidden" });
    const { x, y, width, height } = rectOf(bar, this.#place);
    setAll(cursor, { visibility: "visible", x: x - 2, y: y - 2, width: width + 4, height: height + 4 });
  }

  #press(event) {
    if (!this.#place?.bars.length) return;
    const { bars } = this.#place;
    const now = bars.findIndex((bar) => keyOf(bar.section) === this.#chosen);
    const next = { ArrowRight: now + 1, ArrowLeft: now < 0 ? bars.length - 1 : now - 1, Home: 0, End: bars.length - 1 }[event.key];
    if (next !== undefined) this.#choose(bars[Math.min(Math.max(next, 0), bars.length - 1)]);
    else return;
    event.preventDefault();
    if (this.#zoom > 1) this.#redraw();
  }

  #scale(factor) {
    this.#zoom = Math.min(Math.max(this.#zoom * factor, 1), MOST_ZOOM);
    this.#redraw();
  }

  #redraw() {
    this.#key = "";
    if (this.view) this.show(this.view);
  }
}

// The outcomes of sections, if not all of them sold.
function kinds(bars) {
  const ended = bars.filter(({ section }) => section.left_ms != null);
  const counts = countBy(ended, ({ section }) => (section.cause === "replayed" ? "replayed" : (section.outcome ?? "undecided")));
  const names = Object.keys(counts).sort((a, b) => counts[b] - counts[a]);
  return names.length > 1 ? names.map((name) => `${count(counts[name])} ${named("outcome", name)}`) : [];
}

function describe({ section, open, died, begin, end, together }, zero) {
  const parts = [section.buyer, section.instance];
  if (section.token != null) parts.push(text("queue.token", { token: tokenText(section.token) }));
  parts.push(text("bar.in_at", { time: duration(begin - zero) }));
  parts.push(died ? text("bar.died") : text(open ? "bar.inside_for" : "bar.inside", { time: duration(end - begin) }));
  if (section.outcome) parts.push(named("outcome", section.outcome));
  if (section.cause) parts.push(named("outcome", section.cause));
  parts.push(together ? text("bar.together", { n: together }) : text("bar.alone"));
  return parts.join(" · ");
}
