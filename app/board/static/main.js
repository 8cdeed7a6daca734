// The page: what is live, or what was recorded, shown by the same panels.

import { Controls } from "./controls.js";
import { $, duration, say } from "./dom.js";
import { Live } from "./live.js";
import { showInstances, showQueue, showRuns, showSlots, showUnavailable, showVerdict, speak } from "./panels.js";
import { openPlayer } from "./slow/player.js";
import { showRate } from "./rate.js";
import { kept, open } from "./record.js";
import { Stock } from "./stock.js";
import { Timeline } from "./timeline.js";

const SOURCES = { live: "live", waiting: "no connection, trying again", paused: "paused while this page is hidden" };
const controls = new Controls();
const stock = new Stock($("stock"));
const timeline = new Timeline($("timeline"));
const live = new Live({ changed: () => recorded || showSoon(), connection: showSource });
let recorded = null; // the run that is open instead of the live sale: { name, end, at(ms) }
let asked = 0;
let order = []; // the guards, in the shop's order

// At most once for each frame that the browser draws.
function showSoon() {
  cancelAnimationFrame(asked);
  asked = requestAnimationFrame(() => show(recorded ? recorded.at(Number($("scrub").value)) : liveView(live.model)));
}

function liveView(model) {
  const { sale, ended } = model;
  const guard = sale?.guard;
  const runs = [...ended.filter((run) => run.guard !== guard), ...(guard ? [{ ...sale, current: true }] : [])];
  runs.sort((a, b) => order.indexOf(a.guard) - order.indexOf(b.guard)); // so that a row keeps its place
  return { ...model, live: true, guard, runs, over: sale?.over, events: [] };
}

function show(view) {
  showVerdict(view);
  showUnavailable(view.unavailable);
  stock.show(view.sale);
  showSlots(view.sale);
  showRuns(view.runs);
  timeline.show(view);
  showQueue(view);
  showInstances(view, view.live && controls.canAct);
  showRate(view);
  controls.show(view);
  speak(view);
}

function showSource(state) {
  if (recorded) return;
  $("source").dataset.state = state;
  say($("source"), SOURCES[state]);
}

async function ask(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error((await response.json()).detail);
  return response.text();
}

const openFile = (file) => openView(file.name, async () => open(await file.text(), file.name));
const openReport = (path) => openView(path, async () => open(await ask(`/records/${path}`), path));
const openRun = (guard) =>
  openView(guard, async () => {
    const { sale, sections, source } = JSON.parse(await ask(`/runs/${encodeURIComponent(guard)}`));
    const runs = liveView(live.model).runs.map((run) => ({ ...run, current: run.guard === guard }));
    const run = kept(sale, sections, source);
    return { name: guard, record: run.record, end: run.end, at: (ms) => ({ ...run.at(ms), runs }) };
  });

// Shows the run that `read` returns instead of the live sale, or says why there is none.
async function openView(name, read) {
  try {
    recorded = await read();
  } catch (error) {
    toggle("open", true);
    return say($("open-said"), `${name} cannot be shown: ${error.message}`);
  }
  live.pause();
  say($("open-said"), "");
  toggle("open", false);
  $("source").dataset.state = "recorded";
  say($("source"), `recorded: ${recorded.name}`);
  $("close-record").hidden = false;
  $("player").hidden = !recorded.end;
  Object.assign($("scrub"), { max: recorded.end, value: recorded.end }); // in this order: the old end limits the value
  seek();
}

// Shows the record at the time of the slider.
function seek() {
  const text = `${duration(Number($("scrub").value))} of ${duration(recorded.end)}`;
  say($("clock"), text);
  $("scrub").setAttribute("aria-valuetext", text);
  showSoon();
}

function closeRecord() {
  recorded = null;
  $("close-record").hidden = $("player").hidden = true;
  if (live.model) showSoon();
  live.start();
}

function toggle(name, on = $(name).hidden) {
  $(name).hidden = !on;
  $(`toggle-${name}`).setAttribute("aria-expanded", on);
}

const askSetup = async () => JSON.parse(await ask("/setup"));

// The list begins with no choice, so that each record can be chosen again.
function showReports({ reports }) {
  $("kept").hidden = !reports.length;
  $("reports").replaceChildren(new Option("choose", ""), ...reports.map((name) => new Option(name)));
}

// The pages of labs.
function showLinks({ links }) {
  const { lang } = document.documentElement;
  const made = links.map(({ path, text }) => Object.assign(document.createElement("a"), { href: `${path}?lang=${lang}`, textContent: text[lang] ?? text.en }));
  $("nav").append(...made);
}

for (const name of ["controls", "open"]) $(`toggle-${name}`).addEventListener("click", () => toggle(name));
// Runs are recorded while the page is open; an old list is better than none.
$("toggle-open").addEventListener("click", () => askSetup().then(showReports, () => {}));
$("runs").addEventListener("click", ({ target }) => target.matches("button") && openRun(target.textContent));
$("file").addEventListener("change", ({ target }) => {
  if (target.files[0]) openFile(target.files[0]);
  target.value = ""; // or the same file could not be chosen again
});
$("reports").addEventListener("change", ({ target }) => target.value && openReport(target.value));
$("scrub").addEventListener("input", seek);
$("slow-motion").addEventListener("click", () => openPlayer({ ...recorded.record, title: recorded.name }));
$("close-record").addEventListener("click", closeRecord);
const resized = new ResizeObserver(() => (recorded || live.model) && showSoon());
for (const drawing of document.querySelectorAll(".canvas")) resized.observe(drawing);

askSetup()
  .then((setup) => {
    order = setup.guards.map((guard) => guard.name);
    controls.setUp(setup);
    showReports(setup);
    showLinks(setup);
  })
  .catch(() => say($("said"), "The board does not answer."));
live.start();
