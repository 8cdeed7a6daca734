// Requests per second: of the last half minute while it is live, of the whole run when it is recorded.

import { count, rem, say, setAll, svgEl } from "./dom.js";

const WINDOW_MS = 30_000;
const BINS = 60;
const words = (outcome) => (outcome === "lock_timeout" ? "gave up" : outcome.replaceAll("_", " "));

export class Rate {
  #history = []; // [time, requests per second], live only

  constructor(svg, note) {
    Object.assign(this, { svg, note });
    this.area = svgEl("path", { class: "area" });
    this.peak = svgEl("text", { class: "tick" });
    svg.append(this.area, this.peak);
  }

  show(view) {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!width) return;
    const points = view.live ? this.#live(view) : recorded(view);
    const most = Math.max(...points.map(([, rate]) => rate), 1);
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}` });
    const y = (rate) => height - 1 - (rate / most) * (height - rem());
    const line = points.map(([at, rate]) => `${(at * width).toFixed(1)} ${y(rate).toFixed(1)}`);
    setAll(this.area, { d: line.length > 1 ? `M${line[0].split(" ")[0]} ${height}L${line.join("L")}V${height}z` : "" });
    setAll(this.peak, { x: 2, y: 0.75 * rem() });
    say(this.peak, most > 1 ? `peak ${count(Math.round(most))}` : "");
    say(this.note, view.live ? `${sentence(view.rates)}; the last ${WINDOW_MS / 1000} s` : "the whole run");
  }

  #live({ rates }) {
    const now = performance.now();
    const total = Object.values(rates ?? {}).reduce((sum, rate) => sum + rate, 0);
    this.#history.push([now, total]);
    while (this.#history[0][0] < now - WINDOW_MS) this.#history.shift();
    return this.#history.map(([time, rate]) => [1 - (now - time) / WINDOW_MS, rate]);
  }
}

function sentence(rates) {
  const parts = Object.entries(rates ?? {}).filter(([, rate]) => rate > 0);
  if (!rates || !Object.keys(rates).length) return "not recorded by the instances";
  return parts.map(([outcome, rate]) => `${count(Math.round(rate))} ${words(outcome)}`).join(", ") || "none now";
}

// From the buyers' answers, or from the ledger where there are none.
function recorded({ answers, orders, begin, end }) {
  const times = answers.length ? answers.map((answer) => answer.answered_ms) : orders.map((order) => order.at_ms);
  const width = Math.max(end - begin, 1) / BINS;
  const bins = Array.from({ length: BINS }, () => 0);
  for (const time of times) bins[Math.min(Math.max(Math.floor((time - begin) / width), 0), BINS - 1)] += 1;
  return times.length ? bins.map((number, index) => [(index + 0.5) / BINS, (number * 1000) / width]) : [];
}
