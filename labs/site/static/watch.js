// A recorded rush, shown by the board's panels while it plays in slow motion; at its end it explains itself.

import { $, duration, say } from "/static/dom.js";
import { showInstances, showQueue, showRuns, showVerdict, speak } from "/static/panels.js";
import { showRate } from "/static/rate.js";
import { open } from "/static/record.js";
import { make } from "/static/slow/code.js";
import { explain } from "/static/slow/explain.js";
import { openPlayer } from "/static/slow/player.js";
import { speaker } from "/static/slow/texts.js";
import { Stock } from "/static/stock.js";
import { fillTexts, language, text } from "/static/texts.js";
import { Timeline } from "/static/timeline.js";
import { recorded } from "./recorded.js";
import { TEXTS } from "./texts.js";

const PLAYED_MS = 8000; // how long a rush is shown, whatever time it took

fillTexts();
const t = speaker(TEXTS, language);
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
const rushes = recorded.records.map((record) => open(JSON.stringify(record), record.guard));
const [stock, timeline] = [new Stock($("stock")), new Timeline($("timeline"))];
const explained = new Set();
const seen = new Set(); // rushes whose end was shown
const [play, next] = ["play", "next"].map((name) => make("button", { type: "button", id: name, class: "main" }, t(name)));
let rush = rushes[0];
let frame = 0; // that is asked for while it plays

// What the others ended with stays in the table.
function runsAt(view) {
  return rushes.flatMap((each) => {
    if (each === rush) return [{ ...view.sale, current: true, over: view.over }];
    return seen.has(each) ? [{ ...each.at(each.end).sale, current: false, over: true }] : [];
  });
}

function show() {
  const at = Number($("scrub").value);
  const view = { ...rush.at(at), details: false };
  if (view.over) seen.add(rush);
  showVerdict(view);
  stock.show(view.sale);
  showRuns(runsAt(view));
  timeline.show(view);
  showQueue(view);
  showInstances(view, false);
  showRate(view);
  speak(view);
  const clock = text("clock", { now: duration(at), end: duration(rush.end) });
  say($("clock"), frame ? t("slower", { clock, n: Math.max(1, Math.round(PLAYED_MS / rush.end)) }) : clock);
  $("scrub").setAttribute("aria-valuetext", clock);
  say(play, t(frame ? "pause" : "play"));
  next.hidden = !view.over || rush === rushes.at(-1);
  play.classList.toggle("main", next.hidden);
}

function seek(ms) {
  $("scrub").value = ms;
  show();
}

function pause() {
  cancelAnimationFrame(frame);
  frame = 0;
  show();
}

function start() {
  const from = Number($("scrub").value) < rush.end ? Number($("scrub").value) : 0;
  const began = performance.now();
  const turn = (now) => {
    const at = from + (Math.max(now - began, 0) * rush.end) / PLAYED_MS;
    frame = at < rush.end ? requestAnimationFrame(turn) : 0;
    seek(Math.min(at, rush.end));
    if (!frame && !explained.has(rush) && !document.querySelector("dialog") && explain(rush.record)) explained.add(rush);
  };
  frame = requestAnimationFrame(turn);
}

function choose(chosen) {
  pause();
  rush = chosen;
  $("explain").hidden = false;
  for (const button of $("rushes").children) button.ariaCurrent = rushes[button.value] === rush ? "true" : null;
  Object.assign($("scrub"), { max: rush.end, value: still ? rush.end : 0 });
  show();
  if (!still) start();
}

Object.assign($("language"), { textContent: t("language"), href: `?lang=${language === "zh" ? "en" : "zh"}` });
$("rushes").ariaLabel = t("rush");
$("rushes").append(...rushes.map((each, index) => make("button", { type: "button", value: index }, each.record.guard)));
$("rushes").addEventListener("click", ({ target }) => target.matches("button") && choose(rushes[target.value]));
$("runs").addEventListener("click", ({ target }) => target.matches("button") && choose(rushes.find(({ record }) => record.guard === target.textContent)));
$("player").prepend(play);
$("player").append(next);
$("player").hidden = false;
play.addEventListener("click", () => (frame ? pause() : start()));
next.addEventListener("click", () => choose(rushes[rushes.indexOf(rush) + 1]));
$("scrub").addEventListener("input", pause);
$("explain").addEventListener("click", () => explain(rush.record));
$("slow-motion").addEventListener("click", () => (pause(), openPlayer({ ...rush.record, title: rush.name })));
const resized = new ResizeObserver(() => frame || show());
for (const drawing of document.querySelectorAll(".canvas")) resized.observe(drawing);
choose(rush);
