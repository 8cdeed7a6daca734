// A lane for each worker process, a bar for each critical section; where two were inside at once, it is shaded.

import { duration, plural, rem, say, setAll, svgEl, tokenText } from "./dom.js";
import { layOut, sweep } from "./overlaps.js";
import { toneOf } from "./verdict.js";

const MOST_BARS = 6000;
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6];

export class Timeline {
  #key = "";
  #drawn = null;
  #chosen = null; // the order whose section is described
  #zoom = 1;

  constructor(svg, { note, detail, zoomIn, zoomOut }) {
    Object.assign(this, { svg, note, detail });
    const hatch = svgEl("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    hatch.append(svgEl("rect", { class: "hatch-ground", width: 6, height: 6 }), svgEl("rect", { class: "hatch-line", width: 2, height: 6 }));
    const definitions = svgEl("defs");
    definitions.append(hatch);
    this.layer = svgEl("g");
    this.cursor = svgEl("rect", { class: "cursor", visibility: "hidden" });
    svg.append(definitions, this.layer, this.cursor);
    svg.addEventListener("pointermove", (event) => this.#choose(this.#at(event)));
    svg.addEventListener("keydown", (event) => this.#press(event));
    zoomIn.addEventListener("click", () => this.#scale(2));
    zoomOut.addEventListener("click", () => this.#scale(0.5));
  }

  show(view) {
    this.view = view;
    const inside = view.sections.filter((section) => section.left_ms == null).length;
    const { clientWidth, clientHeight } = this.svg;
    const key = [view.sections.length, inside, view.sections[0]?.order, inside && view.now_ms, clientWidth, clientHeight, this.#zoom, view.events?.length, view.sale?.verdict].join();
    if (key === this.#key || !clientWidth) return;
    this.#key = key;
    this.#draw(view, clientWidth, clientHeight);
  }

  #draw(view, width, height) {
    const shown = view.sections.length > MOST_BARS ? { ...view, sections: view.sections.slice(-MOST_BARS) } : view;
    const { bars, lanes } = layOut(shown);
    const found = sweep(bars);
    const [from, to] = this.#window(bars, view.live);
    const x = (ms) => ((ms - from) / (to - from)) * width;
    const text = rem();
    const top = 2.1 * text; // above it: how many at once
    this.#drawn = { bars, lanes, x, from, to, width, top, bottom: height - 1.4 * text, title: 1.1 * text, ...found };
    // Overlaps are what went wrong where too much was sold; a guard that is exact without excluding anybody may have them.
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}`, "data-tone": toneOf(view.sale?.verdict ?? "") });
    this.layer.replaceChildren(...this.#shapes(view));
    this.#note(view, bars, found);
    this.#mark();
  }

  // The time that is shown. While the run goes on, it grows in steps, so that the bars stand still in between.
  #window(bars, live) {
    if (!bars.length) return [0, 1];
    const begin = bars[0].begin;
    const end = bars.reduce((most, bar) => Math.max(most, bar.end), begin + 1);
    const step = TICKS.find((tick) => tick * 10 >= end - begin) ?? 5e6;
    const span = live ? Math.ceil((end - begin) / step) * step : (end - begin) * 1.01;
    if (this.#zoom === 1) return [begin, begin + span];
    const chosen = bars.find((bar) => bar.section.order === this.#chosen);
    const middle = chosen ? (chosen.begin + chosen.end) / 2 : begin + span / 2;
    const half = span / this.#zoom / 2;
    const from = Math.min(Math.max(begin, middle - half), begin + span - 2 * half);
    return [from, from + 2 * half];
  }

  #shapes(view) {
    const { bars, lanes, x, from, to, width, top, bottom, title, steps, most } = this.#drawn;
    const laneHeight = (bottom - top) / Math.max(lanes.length, 1);
    const names = [...new Set(lanes.map((lane) => lane.name))];
    const shapes = [];
    const path = (name, d) => d && shapes.push(svgEl("path", { class: name, d }));
    const box = (x0, y, w, h) => `M${x0.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(1)}v${h.toFixed(1)}h${(-w).toFixed(1)}z`;
    const visible = ([begin, end]) => end >= from && begin <= to;

    const bands = steps.slice(0, -1).flatMap(([time, number], index) => (number > 1 && visible([time, steps[index + 1][0]]) ? [[time, steps[index + 1][0]]] : []));
    path("band", bands.map(([a, b]) => box(x(a), top, Math.max(x(b) - x(a), 0.6), bottom - top)).join(""));
    path("level", this.#levels(most));
    lanes.forEach((lane, index) => {
      lane.y = top + index * laneHeight + title;
      lane.pitch = Math.min((laneHeight - title - 4) / lane.ends.length, 3 * title);
      const text = svgEl("text", { class: "lane-title", x: 2, y: lane.y - 0.25 * title });
      text.textContent = `${lane.name} · worker ${lane.pid}`;
      shapes.push(svgEl("line", { class: "lane-line", x1: 0, x2: width, y1: lane.y - title, y2: lane.y - title }), text);
    });
    const rect = (bar) => box(x(bar.begin), bar.lane.y + bar.row * bar.lane.pitch, Math.max(x(bar.end) - x(bar.begin), 1), Math.max(bar.lane.pitch * 0.86, 1));
    const seen = bars.filter((bar) => visible([bar.begin, bar.end]));
    const thin = lanes.some((lane) => lane.pitch < 6);
    names.forEach((name, index) => {
      const own = seen.filter((bar) => bar.section.instance === name);
      path(`bars instance-${index % 4}`, own.filter((bar) => !bar.together).map(rect).join(""));
      path(`bars instance-${index % 4} together${thin ? " thin" : ""}`, own.filter((bar) => bar.together).map(rect).join(""));
    });
    path("died", seen.filter((bar) => bar.died).map((bar) => cross(x(bar.begin), bar.lane.y + bar.row * bar.lane.pitch + 5)).join(""));
    return [...shapes, ...this.#events(view), ...this.#axis()];
  }

  // How many were inside at once, as a step line above the lanes; the dashed line is one.
  #levels(most) {
    const { steps, x, from, to, top } = this.#drawn;
    const y = (number) => top - 4 - (number / Math.max(most, 2)) * (top - 8);
    const inside = steps.filter(([time]) => time >= from && time <= to);
    if (!inside.length) return "";
    return `M${x(from).toFixed(1)} ${y(0)}${inside.map(([time, number]) => `H${x(time).toFixed(1)}V${y(number).toFixed(1)}`).join("")}H${x(to).toFixed(1)}V${y(0)}z`;
  }

  #axis() {
    const { x, from, to, bars, width, top, bottom, title } = this.#drawn;
    if (!bars.length) return [];
    const zero = bars[0].begin;
    const step = TICKS.find((tick) => (to - from) / tick <= Math.max(3, width / (7 * title))) ?? 5e6;
    const shapes = [];
    for (let tick = Math.ceil((from - zero) / step) * step; tick <= to - zero; tick += step) {
      const at = x(zero + tick);
      const text = svgEl("text", { class: "tick", x: Math.min(at + 3, width - 3 * title), y: bottom + title });
      text.textContent = tick >= 1000 ? `${+(tick / 1000).toFixed(3)} s` : `${+tick.toFixed(1)} ms`;
      shapes.push(svgEl("line", { class: "tick-line", x1: at, x2: at, y1: top, y2: bottom + 6 }), text);
    }
    return shapes;
  }

  #events(view) {
    const { x, from, to, top, bottom, title } = this.#drawn;
    return (view.events ?? [])
      .filter((event) => event.at_ms >= from && event.at_ms <= to)
      .flatMap((event, index) => {
        const text = svgEl("text", { class: "event", x: x(event.at_ms) + 4, y: bottom - 4 - (index % 4) * title });
        text.textContent = event.text;
        return [svgEl("line", { class: "event-line", x1: x(event.at_ms), x2: x(event.at_ms), y1: top, y2: bottom }), text];
      });
  }

  #note(view, bars, { most, overlapping }) {
    const cut = view.sections.length > MOST_BARS ? `, the last ${MOST_BARS} of ${view.sections.length}` : "";
    const alone = overlapping ? `${overlapping} not alone, at most ${most} at once` : "never two at once";
    say(this.note, bars.length ? `${plural(bars.length, "section")}${cut}: ${alone}` : "none recorded yet");
  }

  #at(event) {
    if (!this.#drawn) return null;
    const place = this.svg.getBoundingClientRect();
    const [px, py] = [event.clientX - place.left, event.clientY - place.top];
    const { bars, x, title } = this.#drawn;
    const near = bars.filter((bar) => px >= x(bar.begin) - 3 && px <= x(bar.end) + 3 && py >= bar.lane.y - title && py <= bar.lane.y + bar.lane.pitch * bar.lane.ends.length + 6);
    const distance = (bar) => Math.abs(py - (bar.lane.y + (bar.row + 0.5) * bar.lane.pitch)) + Math.abs(px - (x(bar.begin) + x(bar.end)) / 2) / 1000;
    return near.sort((a, b) => distance(a) - distance(b))[0] ?? null;
  }

  #choose(bar) {
    if (!bar || bar.section.order === this.#chosen) return;
    this.#chosen = bar.section.order;
    this.#mark();
  }

  #mark() {
    const bar = this.#drawn.bars.find((each) => each.section.order === this.#chosen);
    if (!bar) return setAll(this.cursor, { visibility: "hidden" });
    const { x } = this.#drawn;
    const wide = Math.max(x(bar.end) - x(bar.begin), 1);
    setAll(this.cursor, { visibility: "visible", x: x(bar.begin) - 2, y: bar.lane.y + bar.row * bar.lane.pitch - 2, width: wide + 4, height: bar.lane.pitch * 0.86 + 4 });
    say(this.detail, describe(bar, this.#drawn.bars[0].begin));
  }

  #press(event) {
    if (!this.#drawn?.bars.length) return;
    const { bars } = this.#drawn;
    const now = bars.findIndex((bar) => bar.section.order === this.#chosen);
    const next = { ArrowRight: now + 1, ArrowLeft: now < 0 ? bars.length - 1 : now - 1, Home: 0, End: bars.length - 1 }[event.key];
    if (next !== undefined) this.#choose(bars[Math.min(Math.max(next, 0), bars.length - 1)]);
    else if (event.key === "+") this.#scale(2);
    else if (event.key === "-") this.#scale(0.5);
    else return;
    event.preventDefault();
    if (this.#zoom > 1) this.#redraw();
  }

  #scale(factor) {
    this.#zoom = Math.min(Math.max(this.#zoom * factor, 1), 1024);
    this.#redraw();
  }

  #redraw() {
    this.#key = "";
    if (this.view) this.show(this.view);
  }
}

const cross = (x, y) => `M${x - 4} ${y - 4}l8 8m0-8l-8 8`;

function describe({ section, open, died, begin, end, together }, zero) {
  const parts = [section.buyer, section.instance, section.thread];
  if (section.token != null) parts.push(`token ${tokenText(section.token)}`);
  parts.push(`in at ${duration(begin - zero)}`);
  parts.push(died ? "its process died inside" : open ? `inside for ${duration(end - begin)}` : `${duration(end - begin)} inside`);
  if (section.outcome) parts.push(section.outcome.replace("_", " "));
  if (section.cause) parts.push(section.cause.replaceAll("_", " "));
  parts.push(together ? `not alone: ${plural(together, "other")} inside` : "alone");
  return parts.join(" · ");
}
