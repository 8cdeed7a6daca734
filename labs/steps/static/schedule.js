// A schedule in the address, #guard=NAME&grain=commands&schedule=A.B.A-pause.B.A: its moves in a row, and a button for the
// next one.
// It presses the page's own buttons, so a move is what a person would do.

import { speaker } from "/static/slow/texts.js";
import { make, setText } from "/static/slow/code.js";
import { choose, ready } from "./steps.js";

const TEXTS = {
  next: ["Next: {what}", "下一步：{what}"],
  step: ["step {buyer}", "{buyer} 走一步"],
  pause: ["freeze {buyer}, until its lease has ended", "冻结 {buyer}，直到租约到期"],
  thaw: ["thaw {buyer}", "解冻 {buyer}"],
  kill: ["kill {buyer}", "杀死 {buyer}"],
  lost: ["lose the answer to {buyer}", "丢失 {buyer} 的响应"],
  "kill-sent": ["kill {buyer} behind its command", "在 {buyer} 的命令之后杀死它"],
  add: ["add {buyer}", "添加 {buyer}"],
  machine: ["This order has a move that only make schedules can make: {what}.", "此顺序中有一步只有 make schedules 能做到：{what}。"],
  over: ["The schedule is over.", "调度已结束。"],
  again: ["From the beginning", "从头开始"],
};
const LOOK_MS = 100;
const t = speaker(TEXTS, document.documentElement.lang);
let moves = [];
let place = 0;
const [row, next, again] = [make("p", { class: "moves" }), make("button", { type: "button", class: "main", id: "next-move", disabled: "" }), make("button", { type: "button" }, t("again"))];
const note = make("p", { class: "note" });
const bar = make("div", { class: "schedule tools" }, next, again, note, row);

const control = (what, buyer) => document.querySelector(`[data-do="${what} ${buyer}"]`);
const isFrozen = (buyer) => control("freeze", buyer)?.parentElement.dataset.frozen === "true";

// The next move: its words, and the button of the page that makes it; it stays the next one if that button only prepares it.
function nextMove() {
  const [buyer, fault] = moves[place].split(/-(.*)/);
  const target = control({ pause: "freeze", undefined: "step" }[fault] ?? fault, buyer);
  if (fault) return { text: t(fault, { buyer }), target };
  if (isFrozen(buyer)) return { text: t("thaw", { buyer }), target: control("freeze", buyer), stays: control("freeze", buyer).dataset.steps !== "true" };
  if (!target && buyer === "C") return { text: t("add", { buyer }), target: document.getElementById("add"), stays: true };
  return { text: t("step", { buyer }), target };
}

// What a move needs that this page has no button for, in words; told before the first move.
function missing() {
  const found = moves.map((move) => move.split(/-(.*)/)).find(([, fault]) => {
    const target = fault && control(fault === "pause" ? "freeze" : fault, "A");
    return fault && control("step", "A") && (!target || target.hidden);
  });
  return found && t(found[1], { buyer: found[0] });
}

function show() {
  const needs = missing();
  next.hidden = Boolean(needs);
  setText(note, needs ? t("machine", { what: needs }) : "");
  if (needs) return;
  const isOver = place >= moves.length;
  const { text, target } = isOver ? { text: "" } : nextMove();
  setText(next, isOver ? t("over") : t("next", { what: text }));
  next.disabled = !target || target.ariaDisabled === "true" || document.getElementById("purchases").ariaBusy === "true";
  for (const [index, node] of [...row.children].entries()) node.ariaCurrent = index === place ? "step" : null;
}

function advance() {
  const { target, stays } = nextMove();
  target.click();
  if (!stays) place += 1;
  next.disabled = true; // until the page shows what came of it
}

// A link of another site begins nothing.
const beginHere = () => document.body.dataset.begins === "true" && begin();

function begin() {
  const read = new URLSearchParams(location.hash.slice(1));
  const [guard, path] = [read.get("guard"), read.get("schedule")];
  bar.hidden = !(guard && path);
  if (bar.hidden) return;
  [moves, place] = [path.split("."), 0];
  row.replaceChildren(...moves.map((move) => make("span", {}, move)));
  choose(guard, read.get("grain") ?? "points");
  show();
}

next.addEventListener("click", advance);
again.addEventListener("click", begin);
document.getElementById("stage").before(bar);
addEventListener("hashchange", begin);
setInterval(show, LOOK_MS);
document.getElementById("undo").addEventListener("click", () => (place = Math.max(place - 1, 0)));
ready.then(beginHere);
