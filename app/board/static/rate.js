// Requests per second: of the last half minute while it is live, of the whole run when it is recorded.

import { $, count, countBy, rem, say, setAll } from "./dom.js";

const WINDOW_MS = 30_000;
const BINS = 60; // of a recorded run

const history = []; // [time, requests per second], live only

export function showRate(view) {
  const { rates, points } = view.live ? live(view) : recorded(view);
  const svg = $("rate");
  const [area, peak] = svg.children;
  const { clientWidth: width, clientHeight: height } = svg;
  const most = Math.max(...points.map(([, rate]) => rate), 1);
  const y = (rate) => height - 1 - (rate / most) * (height - rem());
  const line = points.map(([at, rate]) => `${(at * width).toFixed(1)} ${y(rate).toFixed(1)}`);
  setAll(svg, { viewBox: `0 0 ${width} ${height}` });
  setAll(area, { d: line.length > 1 ? `M${line[0].split(" ")[0]} ${height}L${line.join("L")}V${height}z` : "" });
  setAll(peak, { x: 2, y: 0.75 * rem() });
  say(peak, most > 1 ? `peak ${count(Math.round(most))}` : "");
  const span = view.live ? `the last ${WINDOW_MS / 1000} s` : "mean of the run so far";
  say($("rate-note"), view.live || view.answers ? `${sentence(rates)}; ${span}` : "not kept by the board");
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
  const words = (outcome) => (outcome === "lock_timeout" ? "gave up" : outcome.replaceAll("_", " "));
  const parts = Object.entries(rates).filter(([, rate]) => rate > 0);
  return parts.map(([outcome, rate]) => `${count(Math.round(rate))} ${words(outcome)}`).join(", ") || "none";
}
