// The page: what is live, or what was recorded, shown by the same panels.

import { Controls } from "./controls.js";
import { $, count, duration, el, plural, say } from "./dom.js";
import { Live } from "./live.js";
import { LiveRegion, showInstances, showQueue, showRuns, showSlots, showUnavailable, showVerdict } from "./panels.js";
import { Rate } from "./rate.js";
import { NoRecord, open } from "./record.js";
import { Stock } from "./stock.js";
import { Timeline } from "./timeline.js";

const SOURCES = { live: "live", waiting: "no connection, trying again", paused: "paused while this page is hidden" };
const controls = new Controls();
const stock = new Stock($("stock"));
const timeline = new Timeline($("timeline"), { note: $("timeline-note"), detail: $("detail"), zoomIn: $("zoom-in"), zoomOut: $("zoom-out") });
const rate = new Rate($("rate"), $("rate-note"));
const liveRegion = new LiveRegion();
const live = new Live({ changed: () => recorded || showSoon(), connection: showSource });
let recorded = null; // the record that is open instead of the live sale
let at = 0; // the time in it, in milliseconds
let playing = 0;
let asked = 0;

// At most once for each frame that the browser draws.
function showSoon() {
  cancelAnimationFrame(asked);
  asked = requestAnimationFrame(() => show(recorded ? recordedView() : liveView(live.model)));
}

// A run that the board has kept is shown among its other runs.
function recordedView() {
  const view = { ...recorded.at(at), begin: recorded.begin, end: recorded.end };
  if (!live.model || !recorded.kept) return view;
  const others = liveView(live.model).runs.filter((run) => run.guard !== view.guard);
  return { ...view, runs: inOrder([...others.map((run) => ({ ...run, current: false })), ...view.runs]) };
}

function liveView(model) {
  const { sale, ended } = model;
  const guard = sale?.guard;
  const runs = [...ended.filter((run) => run.guard !== guard), ...(guard ? [{ ...sale, current: true }] : [])];
  return { ...model, live: true, guard, runs: inOrder(runs), over: sale?.over, sold: sale?.by_instance, events: [], answers: [] };
}

// In the shop's order of guards, so that a row keeps its place.
let order = [];
const inOrder = (runs) => runs.sort((a, b) => order.indexOf(a.guard) - order.indexOf(b.guard));

function show(view) {
  showVerdict(view);
  showUnavailable(view.unavailable);
  const each = view.sale ? stock.show(view.sale, view.orders) : 1;
  showSlots(view.sale);
  say($("stock-note"), view.sale ? stockNote(view.sale, each) : "");
  showRuns(view.runs, openRun);
  $("no-stock").hidden = Boolean(view.sale);
  $("no-sections").hidden = view.sections.length > 0;
  timeline.show(view);
  showQueue(view);
  showInstances(view, view.live ? controls.act : null);
  rate.show(view);
  controls.show(view);
  liveRegion.show(view);
}

// This panel counts orders; the counter is shown beside the verdict.
function stockNote({ initial, orders }, each) {
  const sold = orders > initial ? `${count(orders)} orders for ${plural(initial, "item")}` : `${count(orders)} of ${count(initial)} sold`;
  return each > 1 ? `${sold}; one square is ${each} items` : sold;
}

function showSource(state) {
  if (recorded) return;
  $("source").dataset.state = state;
  say($("source"), SOURCES[state]);
}

const openRun = (guard) => openAddress(`/runs/${encodeURIComponent(guard)}`);

async function openAddress(address) {
  try {
    const response = await fetch(address);
    if (!response.ok) throw new NoRecord(`${address}: ${(await response.json()).detail}`);
    openText(await response.text(), address.split("/").at(-1), address.startsWith("/runs/"));
  } catch (error) {
    refuse(error instanceof NoRecord ? error : new NoRecord(`${address} cannot be read.`));
  }
}

function openText(text, name, kept = false) {
  try {
    recorded = Object.assign(open(text, name), { kept });
  } catch (error) {
    return refuse(error instanceof NoRecord ? error : new NoRecord(`${name} is incomplete: ${error.message}`));
  }
  live.pause();
  say($("open-said"), "");
  toggle("open", false);
  $("source").dataset.state = "recorded";
  say($("source"), `recorded: ${recorded.name}`);
  $("player").hidden = false;
  seek(recorded.end);
}

function refuse(error) {
  toggle("open", true);
  say($("open-said"), error.message);
}

function closeRecord() {
  recorded = null;
  play(false);
  $("player").hidden = true;
  if (live.model) showSoon();
  live.start();
}

function seek(ms) {
  at = Math.min(Math.max(ms, recorded.begin), recorded.end);
  const share = (at - recorded.begin) / (recorded.end - recorded.begin || 1);
  $("scrub").value = Math.round(share * 1000);
  const text = `${duration(at - recorded.begin)} of ${duration(recorded.end - recorded.begin)}`;
  say($("clock"), text);
  $("scrub").setAttribute("aria-valuetext", text);
  showSoon();
}

// A short run is played in ten seconds, a long one in its own time but at most in thirty.
function play(on) {
  clearInterval(playing);
  playing = 0;
  say($("play"), on ? "Pause" : "Play");
  $("play").setAttribute("aria-pressed", on);
  if (!on) return;
  const length = recorded.end - recorded.begin;
  const speed = length / Math.min(Math.max(length, 10_000), 30_000);
  let before = performance.now();
  if (at >= recorded.end) seek(recorded.begin);
  playing = setInterval(() => {
    const now = performance.now();
    seek(at + (now - before) * speed);
    before = now;
    if (at >= recorded.end) play(false);
  }, 50);
}

function toggle(name, on = $(name).hidden) {
  $(name).hidden = !on;
  $(`toggle-${name}`).setAttribute("aria-expanded", on);
}

const askSetup = async () => (await fetch("/setup")).json();

// The list begins with no choice, so that each record can be chosen again.
function showReports({ reports }) {
  const option = (value, textContent = value) => el("option", { value, textContent });
  $("kept").hidden = !reports.length;
  $("reports").replaceChildren(option("", "choose"), ...reports.map((name) => option(name)));
}

for (const name of ["controls", "open"]) $(`toggle-${name}`).addEventListener("click", () => toggle(name));
// Runs are recorded while the page is open; an old list is better than none.
$("toggle-open").addEventListener("click", () => askSetup().then(showReports, () => {}));
const openFile = async (file) => file && openText(await file.text(), file.name);
$("file").addEventListener("change", ({ target }) => {
  openFile(target.files[0]);
  target.value = ""; // or the same file could not be chosen again
});
$("reports").addEventListener("change", ({ target }) => target.value && openAddress(`/records/${target.value}`));
$("scrub").addEventListener("input", ({ target }) => {
  play(false);
  seek(recorded.begin + (target.value / 1000) * (recorded.end - recorded.begin));
});
$("play").addEventListener("click", () => play(!playing));
$("close-record").addEventListener("click", closeRecord);
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  openFile(event.dataTransfer.files[0]);
});
const resized = new ResizeObserver(() => (recorded || live.model) && showSoon());
for (const drawing of document.querySelectorAll(".canvas")) resized.observe(drawing);

askSetup()
  .then((setup) => {
    order = setup.guards.map((guard) => guard.name);
    controls.setUp(setup);
    showReports(setup);
  })
  .catch(() => say($("said"), "The board does not answer."));
live.start();
