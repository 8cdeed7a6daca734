// The page of the scenes: shows what the board plays, and tells it to go on.
import { Code, make, setText } from "/static/slow/code.js";
import { has, language, text } from "./texts.js";

const EVERY_MS = 250;
const TONES = { exact: "exact", oversold: "over", undersold: "under" }; // the board's
const COLOURS = { Ada: 0, Bob: 1 };
const byId = (id) => document.getElementById(id);
const columns = new Map(); // the parts of each, by its guard
let shown = "";

document.documentElement.lang = language;
document.title = text("title");
for (const each of document.querySelectorAll("[data-text]")) each.textContent = text(each.dataset.text);
byId("board").href = `/?lang=${language}`;
byId("language").href = `?lang=${language === "en" ? "zh" : "en"}`;
byId("token").placeholder = text("token");
byId("token-form").addEventListener("submit", (event) => event.preventDefault());
byId("next").addEventListener("click", () => post("next"));
byId("stop").addEventListener("click", () => post("stop"));
document.addEventListener("keydown", (event) => {
  if (["Enter", " "].includes(event.key) && !event.target.matches("button, input, a") && !byId("next").hidden) {
    event.preventDefault();
    post("next");
  }
});

async function post(what, body = {}) {
  const headers = { "Content-Type": "application/json" };
  if (byId("token").value) headers.Authorization = `Bearer ${byId("token").value}`;
  const answer = await fetch(`/scenes/${what}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 401) byId("token").hidden = false;
  await look();
  const problem = answer.ok ? {} : await answer.json();
  const key = [problem.type?.split(":").at(-1), answer.status].map((each) => `status.${each}`).find(has);
  if (!answer.ok) complain(key ? text(key) : problem.detail);
}

function complain(problem) {
  setText(byId("problem"), problem ?? "");
  byId("problem").hidden = !problem;
}

function button(scene, show, playing) {
  const made = make("button", { type: "button", "data-scene": scene }, text(`scene.${scene}`));
  made.disabled = playing;
  made.ariaCurrent = show?.scene === scene ? "true" : null;
  made.addEventListener("click", () => post("start", { scene }));
  return made;
}

function fillResult(node, { text: key, values, kind }) {
  node.className = "result";
  node.dataset.tone = TONES[kind];
  node.replaceChildren(make("p", { class: "word" }, text(`kind.${kind}`, values)), make("p", {}, text(key, values)));
  return node;
}

function columnOf(guard) {
  if (!columns.has(guard)) {
    const [buyers, lines, result] = [make("dl", { class: "buyers" }), make("div"), make("div", { class: "result", "aria-live": "polite" })];
    const title = make("h2", {}, text(`guard.${guard}`), " ", make("small", {}, guard));
    byId("columns").append(make("article", { "data-guard": guard }, title, buyers, lines, result));
    columns.set(guard, { buyers, result, code: new Code(lines, text) });
  }
  return columns.get(guard);
}

function drawColumn({ guard, source, markers }, results) {
  const { buyers, result, code } = columnOf(guard);
  buyers.replaceChildren(...markers.flatMap(({ buyer, text: key, values, tone }) => [make("dt", {}, buyer), make("dd", { class: tone }, text(key, values))]));
  const marks = markers.map(({ buyer, line, tone }) => ({ label: buyer[0], line, tone, colour: COLOURS[buyer] }));
  if (source) code.show({ source, markers: marks });
  const end = results.find((each) => each.guard === guard);
  if (end) fillResult(result, end);
  else result.replaceChildren();
}

function drawLease(lease) {
  const { instance, left_s: left, granted_s: granted } = lease ?? {};
  byId("lease-left").hidden = left == null;
  if (left != null) Object.assign(byId("lease-left"), { max: granted, value: left });
  setText(byId("lease"), lease ? text(left == null ? "lease.ended" : "lease", { instance, left }) : "");
}

function draw({ scenes, show }) {
  const playing = Boolean(show && !show.over);
  byId("scenes").replaceChildren(...scenes.map((scene) => button(scene, show, playing)));
  const phases = (show?.phases ?? []).map((each) => text(each.text, each.values));
  setText(byId("now"), phases.at(-1) ?? text(playing ? "begins" : "choose"));
  byId("phases").replaceChildren(...phases.slice(0, -1).map((phase) => make("li", {}, phase)));
  if (!show?.columns.length) {
    columns.clear();
    byId("columns").replaceChildren();
  }
  for (const column of show?.columns ?? []) drawColumn(column, show.results);
  const others = (show?.results ?? []).filter(({ guard }) => !columns.has(guard));
  byId("results").replaceChildren(...others.map((each) => fillResult(make("article"), each)));
  drawLease(show?.lease);
  const waited = byId("next").hidden && show?.waits;
  byId("next").hidden = !show?.waits;
  if (waited) byId("next").focus();
  byId("stop").hidden = !playing;
  complain(show?.problem && text(show.problem.text, show.problem.values));
}

async function look() {
  const state = await (await fetch("/scenes/state")).json();
  if (JSON.stringify(state) !== shown) {
    shown = JSON.stringify(state);
    draw(state);
  }
}

setInterval(() => look().catch(() => complain(text("away"))), EVERY_MS);
look();
