// The page of the scenes: shows what the board plays, and tells it to go on.
import { has, language, text } from "./texts.js";

const EVERY_MS = 250;
const TONES = { exact: "exact", oversold: "over", undersold: "under", flawed: "lost" }; // the board's
const byId = (id) => document.getElementById(id);
let shown = "";

document.documentElement.lang = language;
document.title = text("title");
for (const each of document.querySelectorAll("[data-text]")) each.textContent = text(each.dataset.text);
byId("board").href = `/?lang=${language}`;
byId("language").href = `?lang=${language === "en" ? "zh" : "en"}`;
byId("token").placeholder = text("token");
byId("next").addEventListener("click", () => post("next"));
byId("stop").addEventListener("click", () => post("stop"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target === document.body && !byId("next").hidden) post("next");
});

async function post(what, body = {}) {
  const headers = { "Content-Type": "application/json" };
  if (byId("token").value) headers.Authorization = `Bearer ${byId("token").value}`;
  const answer = await fetch(`/scenes/${what}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 401) byId("token").hidden = false;
  await look();
  const key = `status.${answer.status}`;
  if (!answer.ok) complain(has(key) ? text(key) : (await answer.json()).detail);
}

function complain(problem) {
  byId("problem").textContent = problem ?? "";
  byId("problem").hidden = !problem;
}

function item(name, className, content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = content;
  return made;
}

function button(scene, show, playing) {
  const made = item("button", "", text(`scene.${scene}`));
  made.disabled = playing;
  made.ariaCurrent = show?.scene === scene ? "true" : null;
  made.dataset.scene = scene;
  made.addEventListener("click", () => post("start", { scene }));
  return made;
}

function result({ guard, text: key, values, kind }) {
  const made = document.createElement("article");
  made.dataset.tone = TONES[kind];
  made.append(item("h2", "", guard), item("p", "word", text(`kind.${kind}`, values)), item("p", "", text(key, values)));
  return made;
}

function draw({ scenes, show }) {
  const playing = Boolean(show && !show.over);
  byId("scenes").replaceChildren(...scenes.map((scene) => button(scene, show, playing)));
  byId("phases").replaceChildren(...(show?.phases ?? []).map((each) => item("li", "", text(each.text, each.values))));
  byId("results").replaceChildren(...(show?.results ?? []).map(result));
  byId("hint").hidden = Boolean(show);
  byId("next").hidden = !show?.waits;
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
