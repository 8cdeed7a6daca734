// Requests per second: of the last half minute while it is live, of the whole run when it is recorded.

import { $, countBy, duration, rem, say, setAll } from "./dom.js";
import { count, named, text } from "./texts.js";

const WINDOW_MS = 30_000;
const BINS = 60; // of a recorded run

const history = []; // [time, requests per second], live only

export function showRate(view) {
  const { rates, points } = view.live ? live(view) : recorded(view);
  const svg = $("rate");
  const [area, peak, begin, end] = svg.children;
  const { clientWidth: width, clientHeight: height } = svg;
  const [top, bottom] = [1.1 * rem(), height - 1.2 * rem()]; // the axes' texts stand above and below
  const most = Math.max(...points.map(([, rate]) => rate), 1);
  const y = (rate) => bottom - (rate / most) * (bottom - top);
  const line = points.map(([at, rate]) => `${(at * width).toFixed(1)} ${y(rate).toFixed(1)}`);
  setAll(svg, { viewBox: `0 0 ${width} ${height}` });
  setAll(area, { d: line.length > 1 ? `M${line[0].split(" ")[0]} ${bottom}L${line.join("L")}V${bottom}z` : "" });
  const [highest] = points.toSorted((a, b) => b[1] - a[1]);
  const x = highest ? highest[0] * width : 0;
  setAll(peak, { x, y: 0.8 * rem(), "text-anchor": x < width / 3 ? "start" : x > (2 * width) / 3 ? "end" : "middle" });
  say(peak, most > 1 ? text("rate.peak", { n: Math.round(most) }) : "");
  setAll(begin, { x: 0, y: height - 0.2 * rem() });
  setAll(end, { x: width, y: height - 0.2 * rem(), "text-anchor": "end" });
  say(begin, view.live ? text("rate.ago") : points.length ? duration(0) : "");
  say(end, view.live ? text("rate.now") : points.length ? duration(view.end) : "");
  const span = text(view.live ? "rate.last" : "rate.mean");
  say($("rate-note"), view.live || view.answers ? `${sentence(rates)}; ${span}` : text("rate.not_kept"));
}

function live({ rates }) {
  const now = performance.now();
  history.push([now, Object.values(rates).reduce((sum, rate) => sum + rate, 0)]);
  while (history[0][0] < now - WINDOW_MS) history.shift();
  return { rates, points: history.map(([time, rate]) => [1 - (now - time) / WINDOW_MS, rate]) };
}

// From the buyers' answers: the mean since the first request, and the course.
function recorded({ answers, now_ms, end }) {
  if (!answers?.length) return { rates: {}, points: [] };
  const sent = answers.reduce((first, answer) => Math.min(first, answer.sent_ms), Infinity);
  const counts = Object.entries(countBy(answers, (answer) => answer.outcome));
  const width = end / BINS;
  const bins = Array.from({ length: BINS }, () => 0);
  for (const { answered_ms } of answers) bins[Math.min(Math.floor(answered_ms / width), BINS - 1)] += 1;
  return {
    rates: Object.fromEntries(counts.map(([outcome, number]) => [outcome, (number * 1000) / (now_ms - sent)])),
    points: bins.map((number, index) => [(index + 0.5) / BINS, (number * 1000) / width]),
  };
}

function sentence(rates) {
  const parts = Object.entries(rates).filter(([, rate]) => rate > 0);
  return parts.map(([outcome, rate]) => `${count(Math.round(rate))} ${named("outcome", outcome)}`).join(", ") || text("rate.none");
}
