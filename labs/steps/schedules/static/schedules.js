// Every schedule that was tried, as a tree; a click plays one with the guard's lines, a link leads to its steps.

import { openPlayer } from "/static/slow/player.js";
import { make, setText } from "/static/slow/code.js";
import { speaker } from "/static/slow/texts.js";
import { TEXTS } from "./texts.js";
import { draw, treeOf } from "./tree.js";

const WRONG = ["oversold", "lost_updates", "told_wrong", "unsold"];
const $ = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search).get("lang") ?? navigator.language;
const language = (document.documentElement.lang = asked.startsWith("zh") ? "zh" : "en");
const t = speaker(TEXTS, language);

let found; // the file that is shown
let rows = []; // its schedules with one kind of fault
let tree = { order: [], roots: [] };
let leaves = new Map();
let chosen = 0;

const load = async (path) => (await fetch(path)).json();

function rowOf([fault, moves, points, ending, stock_left, orders, sections, answers]) {
  return { fault, moves, points, ending, stock_left, orders, sections, answers, wrong: ending.some((number) => number > 0) };
}

function words({ move, point }) {
  const [buyer, fault] = move.split("-");
  return t(`step_${fault ?? point}`, { buyer });
}

async function showGuard({ guard, path }) {
  current("guards", guard);
  found = await load(`/records/${path}`);
  const faults = found.counts.map(({ fault, schedules }) => button(fault, `${t(fault)}: ${schedules}`, () => showFault(fault)));
  $("faults").replaceChildren(...faults);
  showFault("none");
}

function showFault(fault) {
  current("faults", fault);
  rows = found.rows.map(rowOf).filter((row) => row.fault === fault);
  const wrong = rows.filter((row) => row.wrong).length;
  setText($("summary"), t(wrong ? "wrong" : "right", { wrong, all: rows.length }));
  $("summary").dataset.tone = wrong ? "bad" : "good";
  $("shortest").hidden = !wrong;
  tree = treeOf(rows);
  leaves = draw($("tree"), rows, tree, words, (row) => {
    choose(row);
    play();
  });
  choose(shortest() ?? tree.order[0]);
}

function shortest() {
  const path = found.counts.find(({ fault }) => fault === rows[0]?.fault)?.shortest;
  const row = rows.findIndex(({ moves }) => moves.join(".") === path);
  return row < 0 ? null : row;
}

function choose(row) {
  leaves.get(chosen)?.classList.remove("chosen");
  chosen = row;
  leaves.get(row)?.classList.add("chosen");
  const { moves, points, ending, wrong } = rows[row];
  const end = WRONG.filter((_, place) => ending[place]).map((name) => t(name));
  const steps = moves.map((move, index) => words({ move, point: points[index] })).join(" · ");
  $("line").replaceChildren(`${steps}: `, make("span", { "data-tone": wrong ? "bad" : "good" }, end.join(", ") || t("fine")));
  $("steps").href = `/steps?lang=${language}#guard=${encodeURIComponent(found.guard)}&schedule=${moves.join(".")}`;
}

function play() {
  const row = rows[chosen];
  openPlayer({ ...filmOf(row), title: row.moves.join(" ") });
}

function filmOf({ orders, sections }) {
  const names = found.columns;
  return {
    guard: found.guard,
    stock: found.items,
    source: found.source,
    ledger: orders.map((order) => ({ order })),
    sections: sections.map((row) => ({
      ...Object.fromEntries(names.map((name, column) => [name, row[column]])),
      points: row[names.length].map(([name, line, at_ms]) => ({ name, line, at_ms })),
    })),
  };
}

function button(name, text, press) {
  const node = make("button", { type: "button", value: name }, text);
  node.addEventListener("click", press);
  return node;
}

function current(nav, name) {
  for (const each of $(nav).children) each.ariaCurrent = each.value === name ? "true" : null;
}

function press(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter") play();
  if (!by) return;
  event.preventDefault();
  const place = tree.order.indexOf(chosen) + by;
  if (tree.order[place] !== undefined) choose(tree.order[place]);
}

for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
document.title = t("title");
$("back").href = `/steps?lang=${language}`;
Object.assign($("language"), { textContent: t("language"), href: `/schedules?lang=${language === "zh" ? "en" : "zh"}` });
$("play").addEventListener("click", play);
$("shortest").addEventListener("click", () => choose(shortest()));
$("tree").addEventListener("keydown", press);
const { results } = await load("/schedules/results");
$("guards").replaceChildren(...results.map((result) => button(result.guard, result.guard, () => showGuard(result))));
$("chosen").hidden = !results.length;
if (results.length) await showGuard(results.find(({ guard }) => guard === "none") ?? results[0]);
else setText($("summary"), t("empty"));
