// Every order that was tried, as paths of the graph of states. A click on a state chooses an order through it, which is told
// in words; its end plays in slow motion, and a link leads to its steps.

import { openPlayer } from "/static/slow/player.js";
import { make, setText } from "/static/slow/code.js";
import { chosenLanguage } from "/static/slow/language.js";
import { speaker } from "/static/slow/texts.js";
import { brief } from "/steps/static/command.js";
import { instanceOf, partsOf, purchasesIn, recordings } from "/steps/static/recorded.js";
import { Graph, draw } from "./graph.js";
import { TEXTS } from "./texts.js";

const WRONG = ["oversold", "lost_updates", "told_wrong", "unsold", "deadlock", "errors"];
const $ = (id) => document.getElementById(id);
const language = (document.documentElement.lang = chosenLanguage(["en", "zh"]));
const t = speaker(TEXTS, language);

let file; // of the guard that is shown, see labs/steps/schedules/results.py
let index = 0; // of its graph that is shown, one for each kind of fault
let graph;
let order = []; // that is chosen: [{ move, from, to }]
let chosen = 0; // the state on it
let show = () => {};

// { guard, load } of each guard that was tried: those in the page itself, or else those of the board; if it has tried none, those
// that came with the repository.
async function results() {
  const inside = [...recordings()].map(([guard, load]) => ({ guard, load }));
  if (inside.length) return inside;
  const found = await (await fetch("/schedules/results")).json();
  $("came").hidden = found.own;
  return found.results.map(({ guard, path }) => ({ guard, load: async () => (await fetch(path)).json() }));
}

async function showGuard({ guard, load }) {
  current("guards", guard);
  file = await load();
  setText($("came"), t("came", { day: new Date(file.started).toLocaleDateString(language, { dateStyle: "long" }) }));
  $("faults").replaceChildren(...file.counts.map(({ fault, orders }, place) => button(place, `${t(fault)}: ${short(orders)}`, () => showGraph(place))));
  showGraph(0);
}

function showGraph(place) {
  index = place;
  current("faults", String(place));
  const { orders, wrong, states, ends, wrong_ends, cut, no_verdict: reason } = file.counts[place];
  graph = new Graph(file.graphs[place]);
  const numbers = { orders: short(orders), wrong: short(wrong), states: short(states), ends: short(ends), wrong_ends: short(wrong_ends), cut: short(cut) };
  setText($("summary"), [t(wrong_ends ? "wrong" : "right", numbers), ...(reason ? [t("noVerdict", { reason })] : []), ...(cut ? [t("cut", numbers)] : [])].join(" "));
  $("summary").dataset.tone = wrong_ends ? "bad" : cut || reason ? "warn" : "good";
  $("shortest").hidden = !wrong_ends;
  show = draw($("graph"), graph, label, choose);
  $("graph").ariaLabel = t("graph", numbers);
  if (wrong_ends) chooseShortest();
  else choose(Number(Object.keys(graph.films)[0] ?? 0));
}

function chooseShortest() {
  const path = file.counts[index].shortest;
  follow(graph.along(path.split(".")));
}

const choose = (number) => follow(graph.orderThrough(number), number);

// Show an order, at its end or at another state of it.
function follow(way, number = way.at(-1)?.to ?? 0) {
  [order, chosen] = [way, number];
  const end = order.at(-1)?.to ?? 0;
  const film = graph.films[end];
  const kinds = film ? WRONG.filter((_, place) => film[2][place]).map((name) => t(name)) : [];
  const isWrong = kinds.length > 0;
  $("order").replaceChildren(
    ...order.map(({ move, from, to }) => make("li", { class: `colour-${"ABCD".indexOf(move[0])}`, ...(to === chosen && to !== end ? { "aria-current": "step" } : {}) }, words(move, from, to))),
  );
  setText($("ending"), film ? kinds.join(", ") || t("fine") : t("open"));
  $("ending").dataset.tone = isWrong ? "bad" : film ? "good" : "warn";
  setText($("state"), t("state", { moves: graph.states[chosen].from ? order.findLastIndex(({ to }) => to === chosen) + 1 : 0, state: label(graph.states[chosen]).replaceAll("\n", "; ") }));
  const path = order.map(({ move }) => move).join(".");
  $("play").hidden = !film;
  if (film) setText($("play"), t(film[0].join(".") === path ? "play" : "playOther"));
  $("steps").href = `${$("steps").dataset.path}?lang=${language}#guard=${encodeURIComponent(file.guard)}&grain=${file.grain}&schedule=${path}`;
  show(order, chosen);
}

// A move: what the purchase sends, or comes to, or what is done to it.
function words(move, from, to) {
  const [buyer, fault] = partsOf(move);
  const [before, after] = [from, to].map((number) => purchasesIn(file, file.graphs[index], number).find((each) => each.buyer === buyer));
  if (fault === "pause" || fault === "kill") return t(`step_${fault}`, { buyer });
  const does = before.command ? brief(before.command) : t(`does_${doesAt(before, after)}`);
  const ends = [...(before.frozen ? [t("thawed")] : []), ...(before.command && after.waits ? [t("does_waits")] : []), ...(fault ? [t(`step_${fault}`, { buyer })] : [])];
  return [`${buyer} ${does}`, ...ends].join(", ");
}

function doesAt(before, after) {
  if (file.grain === "commands") return before.point === "start" ? "start" : "on";
  if (after.waits) return "waits";
  return after.point === "left" && after.outcome !== "sold" ? "told" : after.point;
}

function label({ number, isEnd, isCut }) {
  const [stock, orders] = file.graphs[index].states[number].slice(-4);
  const places = purchasesIn(file, file.graphs[index], number).map(({ buyer, point, command, dead, outcome, frozen }) => `${buyer}: ${dead ? t("dead") : (!outcome && command) || t(`is_${outcome ?? point}`)}${frozen ? `, ${t("frozen")}` : ""}`);
  return [...places, t("sale", { stock, orders }), ...(isEnd ? [t(graph.isWrong(number) ? "endsWrong" : "endsRight")] : []), ...(isCut ? [t("isCut")] : [])].join("\n");
}

const short = (number) => (number < 1e7 ? number.toLocaleString("en") : number.toExponential(1));

function play() {
  const [moves, , , , orders, sections] = graph.films[order.at(-1).to];
  const names = file.columns;
  openPlayer({
    guard: file.guard,
    title: moves.join(" "),
    stock: file.items,
    source: file.source,
    ledger: orders.map((each) => ({ order: each })),
    sections: sections.map((row) => ({
      ...Object.fromEntries(names.map((name, column) => [name, row[column]])),
      instance: instanceOf(row[names.indexOf("buyer")]),
      points: row[names.length].map(([name, line, at_ms]) => ({ name, line, at_ms })),
    })),
  });
}

function button(name, text, press) {
  const node = make("button", { type: "button", value: name }, text);
  node.addEventListener("click", press);
  return node;
}

function current(nav, name) {
  for (const each of $(nav).children) each.ariaCurrent = each.value === name ? "true" : null;
}

// Left and right: along the order. Up and down: another state after so many moves, and an order through it.
function press(event) {
  const { key } = event;
  const along = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const aside = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (key === "Enter" && !$("play").hidden) play();
  if (!along && !aside) return;
  event.preventDefault();
  const states = along ? [0, ...order.map(({ to }) => to)] : graph.layers[graph.states[chosen].depth].map(({ number }) => number);
  const next = states[states.lastIndexOf(chosen) + (along ?? aside)];
  if (next === undefined) return;
  if (along) follow(order, next);
  else choose(next);
}

for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
document.title = t("title");
$("back").href = `${$("back").getAttribute("href")}?lang=${language}`;
Object.assign($("language"), { textContent: t("language"), href: `?lang=${language === "zh" ? "en" : "zh"}` });
$("play").addEventListener("click", play);
$("shortest").addEventListener("click", chooseShortest);
$("graph").addEventListener("keydown", press);
results().then((found) => {
  $("guards").replaceChildren(...found.map((result) => button(result.guard, result.guard, () => showGuard(result))));
  $("chosen").hidden = $("legend").hidden = !found.length;
  if (found.length) showGuard(found.find(({ guard }) => guard === "none") ?? found[0]);
  else setText($("summary"), t("empty"));
});
