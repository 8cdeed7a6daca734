// The page: what is live, or what was recorded, shown by the same panels.

import { BUSY, Controls } from "./controls.js";
import { $, duration, say } from "./dom.js";
import { Live } from "./live.js";
import { showInstances, showQueue, showRuns, showUnavailable, showVerdict, speak } from "./panels.js";
import { explain } from "./slow/explain.js";
import { openPlayer } from "./slow/player.js";
import { showRate } from "./rate.js";
import { kept, open } from "./record.js";
import { Stock } from "./stock.js";
import { fillTexts, language, setLabTexts, text } from "./texts.js";
import { Timeline } from "./timeline.js";
import { sentenceOf } from "./verdict.js";

const FEWEST = 10; // items of a rush; scenes and steps have less
const EXPECTED_MS = 15_000; // for the board to tell of a rush that was asked for here

fillTexts();
const controls = new Controls({ expect });
const stock = new Stock($("stock"));
const timeline = new Timeline($("timeline"));
const live = new Live({ changed: () => recorded || showSoon(), connection: showSource });
let recorded = null; // the run that is open instead of the live sale: { name, end, at(ms) }
let expected = null; // the rush that was asked for here, until the board tells of it
let asked = 0;
let guardNames = []; // the guards, in the shop's order
const explained = new Set(); // "lock" or "none": of each, the first rush that is seen here explains itself
let rushed = ""; // the generation of a rush that is under way
const rows = []; // the guards of the table, which keep their places

// At most once for each frame that the browser draws.
function showSoon() {
  cancelAnimationFrame(asked);
  asked = requestAnimationFrame(() => show(recorded ? recorded.at(Number($("scrub").value)) : liveView(live.model)));
}

// The old verdict goes at the click; null brings it back.
function expect(arrival) {
  expected = arrival && { arrival, generation: live.model?.sale?.generation, until: performance.now() + EXPECTED_MS };
  if (live.model && !recorded) show(liveView(live.model));
}

function liveView(model) {
  const { sale, ended } = model;
  if (model.arrival || sale?.generation !== expected?.generation || performance.now() > expected?.until) expected = null;
  const arrival = model.arrival ?? expected?.arrival;
  const guard = sale?.guard;
  const last = new Map(ended.map((run) => [run.guard, run]));
  if (guard) last.set(guard, { ...sale, current: !arrival });
  if (arrival) last.set(arrival.guard, { ...awaited(arrival), guard: arrival.guard, current: true }); // its row is there before it begins
  const runs = [...last.values()];
  const begun = runs.map((run) => run.guard).filter((each) => !rows.includes(each));
  rows.push(...begun.sort((a, b) => guardNames.indexOf(a) - guardNames.indexOf(b)));
  runs.sort((a, b) => rows.indexOf(a.guard) - rows.indexOf(b.guard));
  const view = { ...model, live: true, arrival, guard, runs, over: sale?.over, events: [] };
  return arrival ? { ...view, sale: awaited(arrival), sections: [] } : view;
}

// The sale that those who come will find.
const awaited = ({ stock: initial }) => ({ initial, orders: 0, stock: initial, kind: "awaited", by_instance: {} });

function show(shown) {
  const view = { ...shown, details: document.body.dataset.details === "on" };
  showVerdict(view);
  showUnavailable(view.unavailable);
  stock.show(view.sale);
  showRuns(view.runs);
  timeline.show(view);
  showQueue(view);
  showInstances(view, view.live && controls.canAct);
  showRate(view);
  controls.show(view);
  speak(view);
  if (view.live) explainFirst(view);
}

function showSource(state) {
  if (recorded) return;
  Object.assign($("source"), { title: "" }).dataset.state = state;
  say($("source"), text(`source.${state}`));
}

async function ask(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error((await response.json()).detail);
  return response.text();
}

const openFile = (file) => openView(file.name, async () => open(await file.text(), file.name));
const readRun = async (guard) => {
  const { sale, ...rows } = JSON.parse(await ask(`/runs/${encodeURIComponent(guard)}`));
  return kept(sale, rows);
};
const openReport = (path) => openView(path, async () => open(await ask(`/records/${path}`), path));
const openRun = (guard) =>
  openView(guard, async () => {
    const runs = liveView(live.model).runs.map((run) => ({ ...run, current: run.guard === guard }));
    const run = await readRun(guard);
    return { name: guard, record: run.record, end: run.end, at: (ms) => ({ ...run.at(ms), runs }) };
  });

// When a rush has ended that was seen here, and its kind for the first time.
function explainFirst({ sale, arrival, locust }) {
  const { generation, guard, over, orders, initial } = sale ?? {};
  $("explain").hidden = Boolean(recorded || arrival || !over || !orders);
  if (arrival || (sale && !over && initial >= FEWEST)) rushed = arrival ? "next" : generation;
  const kind = guard?.includes("etcd") ? "lock" : "none";
  const isEnd = over && guard && !arrival && !BUSY.includes(locust?.state) && ["next", generation].includes(rushed);
  if (!isEnd || explained.has(kind)) return;
  rushed = "";
  const isFree = () => !recorded && !document.querySelector("dialog"); // nothing else has been opened meanwhile
  readRun(guard).then(({ record }) => isFree() && explain(record) && explained.add(kind), () => {});
}

// Shows the run that `read` returns instead of the live sale, or says why there is none.
async function openView(name, read) {
  try {
    recorded = await read();
  } catch (error) {
    toggle("open", true);
    return say($("open-said"), text("problem.cannot_show", { name, why: error.message }));
  }
  live.pause();
  say($("open-said"), "");
  toggle("open", false);
  $("source").dataset.state = "recorded";
  say($("source"), text("source.recorded", { name: recorded.name }));
  $("source").title = recorded.name;
  $("close-record").hidden = false;
  $("links").hidden = true; // they are about the live sale, and the name of the record needs the room
  $("player").hidden = !recorded.end;
  Object.assign($("scrub"), { max: recorded.end, value: recorded.end }); // in this order: the old end limits the value
  seek();
}

// Shows the record at the time of the slider.
function seek() {
  const told = text("clock", { now: duration(Number($("scrub").value)), end: duration(recorded.end) });
  say($("clock"), told);
  $("scrub").setAttribute("aria-valuetext", told);
  showSoon();
}

function closeRecord() {
  recorded = null;
  $("toggle-open").focus(); // or the keyboard would begin again at the top
  $("close-record").hidden = $("player").hidden = true;
  $("links").hidden = false;
  if (live.model) showSoon();
  live.start();
}

// One drawer is open at a time.
function toggle(name, on = $(name).hidden) {
  for (const each of ["controls", "open"]) {
    if (each !== name && !on) continue;
    $(each).hidden = each !== name || !on;
    $(`toggle-${each}`).setAttribute("aria-expanded", !$(each).hidden);
  }
}

function toggleDetails() {
  const on = document.body.dataset.details !== "on";
  document.body.dataset.details = on ? "on" : "off";
  $("toggle-details").setAttribute("aria-pressed", on);
  if (recorded || live.model) showSoon();
}

// The list begins with no choice, so that each record can be chosen again.
function showReports({ records }) {
  const told = ({ started, scenario, guard, verdict }) =>
    [new Date(started).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" }), scenario, guard, sentenceOf(verdict)].filter(Boolean).join(" · ");
  $("kept").hidden = !records.length;
  $("reports").replaceChildren(new Option(text("choose"), ""), ...records.map((record) => new Option(told(record), record.path)));
}

// The pages of labs. A link may have something done first; if that is refused, its page is not opened.
function showLinks(links) {
  const made = links.map(({ path, text: title, first }) => {
    const link = Object.assign(document.createElement("a"), { href: `${path}?lang=${language}`, textContent: title[language] ?? title.en });
    const follow = async (event) => {
      event.preventDefault();
      if (await controls.post(first.path, first.body)) location.assign(link.href);
    };
    if (first) link.addEventListener("click", follow);
    return link;
  });
  $("links").replaceChildren(...made);
}

for (const name of ["controls", "open"]) $(`toggle-${name}`).addEventListener("click", () => toggle(name));
$("toggle-details").addEventListener("click", toggleDetails);
// Runs are recorded while the page is open.
$("toggle-open").addEventListener("click", () => ask("/records").then((told) => showReports(JSON.parse(told)), () => {}));
$("runs").addEventListener("click", ({ target }) => target.matches("button") && openRun(target.textContent));
$("file").addEventListener("change", ({ target }) => {
  if (target.files[0]) openFile(target.files[0]);
  target.value = ""; // or the same file could not be chosen again
});
$("reports").addEventListener("change", ({ target }) => target.value && openReport(target.value));
$("scrub").addEventListener("input", seek);
$("explain").addEventListener("click", () => readRun(live.model.sale.guard).then(({ record }) => explain(record) || openPlayer({ ...record, title: record.guard })));
$("slow-motion").addEventListener("click", () => openPlayer({ ...recorded.record, title: recorded.name }));
$("close-record").addEventListener("click", closeRecord);
$("language").href = `?lang=${language === "en" ? "zh" : "en"}`;
const resized = new ResizeObserver(() => (recorded || live.model) && showSoon());
for (const drawing of document.querySelectorAll(".canvas")) resized.observe(drawing);

ask("/setup")
  .then((told) => {
    const setup = JSON.parse(told);
    guardNames = setup.guards.map((guard) => guard.name);
    controls.setUp(setup);
    showLinks(setup.links);
    setLabTexts(setup.lab_texts);
  })
  .catch(() => controls.tell(text("problem.no_board"), false));
live.start();
