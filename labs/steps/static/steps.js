// "You are the scheduler": two purchases that go on only when told so, through the real Redis and the real etcd; or as
// they once did, from a recording.

import { chosenLanguage } from "/static/slow/language.js";
import { speaker } from "/static/slow/texts.js";
import { allow, make, pressable, setText } from "/static/slow/code.js";
import { Stage } from "/static/slow/stage.js";
import { brief } from "./command.js";
import { Live } from "./live.js";
import { Recorded, recordings } from "./recorded.js";
import { TEXTS } from "./texts.js";

const GUARDS = ["none", "thread", "etcd-unfenced", "etcd-checked", "etcd", "redis-lua"]; // of the first levels
const SELLS_TWICE = GUARDS.slice(0, 4);
const [POINTS, COMMANDS] = ["points", "commands"];
const ENDS = ["oversold", "lost_updates", "told_wrong", "unsold_item", "deadlock", "errors"]; // the ways in which an order is wrong
const MOST_ITEMS = 3; // of a level
const WORST_FIRST = ["oversold", "deadlock", "errors", "unsold_item", "told_wrong", "lost_updates"];
const OFFERS = ["step", "freeze", "kill", "kill-sent", "lost"];
const POLL_MS = 400;
const FENCED = /token ([\d.]+) is fenced off, ([\d.]+) was here/;
const $ = (id) => document.getElementById(id);

const language = (document.documentElement.lang = chosenLanguage(["en", "zh"]));
const t = speaker(TEXTS, language);
const stage = new Stage($("stage"), t);
const files = recordings();
const source = files.size ? new Recorded(files) : new Live(() => $("token").value);
const rows = new Map(); // of a purchase's controls, by its id
const solved = new Set();
let mistakes = new Map();
let levels = GUARDS.filter((name) => !files.size || files.has(name));
let guard = levels[0] ?? [...files.keys()][0];
let grain = files.get(guard)?.().grain ?? POINTS;
let offers = ["step"];
let waiting = 0; // requests, which wait for each other: an older state must not replace a newer one
let turn = Promise.resolve();
let focused = ""; // the button that had the keyboard's focus when its level ended; in the next one it has it again
if (files.size) document.body.dataset.begins = "true";
let mayBegin = document.body.dataset.begins === "true" && !location.hash; // a link of another site begins nothing, and a schedule its own guard

// `ask` promises a state; `isLook`: it changes nothing.
function act(ask, { isLook = false } = {}) {
  waiting += 1;
  if (!isLook) $("purchases").ariaBusy = "true"; // until what came of it is shown
  turn = turn
    .then(ask)
    .then((state) => {
      if (waiting === 1) show(state); // else a newer one follows
      if (!isLook) setText($("problem"), "");
    })
    .catch((error) => setText($("problem"), `status_${error.status}` in TEXTS ? t(`status_${error.status}`) : error.message))
    .finally(() => {
      waiting -= 1;
      if (!waiting) $("purchases").ariaBusy = "false";
    });
}

const poll = () => document.hidden || waiting || act(() => source.look(), { isLook: true });

// Begin anew under this guard; `at` is a grain.
export function choose(name, at = grain) {
  const held = document.activeElement;
  focused = held === $("next-level") ? "step A" : (held?.dataset.do ?? "");
  select(name, at);
  $("purchases").replaceChildren(); // those end now
  act(() => source.begin(name, at));
}

function select(name, at) {
  [guard, grain] = [name, at];
  for (const button of document.querySelectorAll(".levels button")) button.ariaCurrent = button.value === name ? "true" : null;
  $("other").value = levels.includes(name) ? "" : name;
  $("grain").value = at;
  const mistake = mistakes.get(name);
  if (mistake) $("task").replaceChildren(...mistakeWords(mistake));
  else setText($("task"), t(GUARDS.includes(name) ? `task_${name}` : "task"));
  $("next-level").hidden = true;
}

function mistakeWords({ description = "", found = "" }) {
  const links = found.split(/,\s*/).map((place) => (place.startsWith("https:") ? make("a", { href: place, rel: "noreferrer" }, place.replace(/^https:\/\/(www\.)?/, "")) : place));
  return [t("task_mistake", { description }), ...(found ? [make("small", {}, t("found"), " ", ...links.flatMap((link, index) => (index ? [", ", link] : [link])))] : [])];
}

function show({ instances, sale, queue, offers: offered, ending, undo = false }) {
  const all = instances.flatMap((instance) => instance.purchases.map((purchase) => ({ ...purchase, instance })));
  all.sort((a, b) => a.buyer.localeCompare(b.buyer));
  const running = all[0]?.guard;
  if (running && (running !== guard || all[0].grain !== grain) && waiting === 1) select(running, all[0].grain); // another viewer has chosen it
  if (offered) offers = offered;
  if (offered) setText($("keys"), t(offered.includes("kill-sent") ? "keysKill" : "keysRecorded"));
  if (mayBegin && !all.length) choose(guard);
  mayBegin = false;
  const markers = all.map((purchase) => ({ line: purchase.line, label: purchase.buyer, colour: instances.indexOf(purchase.instance), text: onLine(purchase), tone: purchase.instance.state === "frozen" ? "warn" : toneOf(purchase), current: purchase.stands }));
  const ours = all.length > 0 && sale.orders <= 2 * all.length && sale.items <= MOST_ITEMS; // or another sale has begun before or since
  const tokens = [sale.fence, ...all.map(({ token }) => token)].filter((token) => token != null);
  stage.show({
    source: all[0]?.source ?? { file: "", first_line: 0, text: "" },
    instances: instances.map(({ name }) => name),
    markers: markers.filter(({ line }) => line != null),
    figures: [
      [t("counter"), ours ? (sale.stock ?? "?") : "–"],
      [t("ledger"), ours ? sale.orders : "–", ours && sale.orders > sale.items ? "bad" : ""],
      [t("queue"), queue.length],
      [t("token"), ours && tokens.length ? tokens.map((each) => [each].flat().join(".")).sort(byNumber).at(-1) : "–"],
    ],
  });
  showCommands(all, instances);
  for (const old of $("purchases").querySelectorAll(".purchase")) if (!all.some(({ id }) => old.dataset.id === id)) old.remove();
  for (const purchase of all) showControls(purchase, { all, queue, colour: instances.indexOf(purchase.instance) });
  if (all.length && focused) document.querySelector(`[data-do="${focused}"]`)?.focus();
  focused = "";
  const over = all.every(isOver); // also before the first one
  $("begin").className = over ? "main" : "";
  allow($("add"), !over && all.length < 3);
  allow($("undo"), undo);
  if (ours) showResult(all, sale, running, ending);
  else setText($("result"), "");
}

const isOver = ({ point, dead }) => point === "over" || dead;

// Beneath the line of a purchase, what it is about to send.
function showCommands(all, instances) {
  for (const old of $("stage").querySelectorAll(".command")) old.remove();
  for (const purchase of all.filter(({ command, dead }) => command && !dead)) {
    const line = make("div", { class: `command colour-${instances.indexOf(purchase.instance) % 4}` }, make("b", {}, purchase.buyer), " ", make("samp", {}, purchase.command));
    $("stage").querySelector(`li[data-line="${purchase.line}"]`)?.append(line);
  }
}

const byNumber = (a, b) => parseFloat(a) - parseFloat(b);

function showControls(purchase, context) {
  const { id, buyer, instance, stands, moves } = purchase;
  let row = rows.get(id);
  if (!row) {
    const buttons = OFFERS.map((name) => make("button", { type: "button", class: name === "step" ? "main" : "", "data-do": `${name} ${buyer}` }));
    row = make("div", { class: `purchase colour-${context.colour % 4}`, "data-id": id }, make("div", { class: "tools" }, ...buttons), make("p", { "aria-live": "polite" }, make("span"), make("small", {}, instance.name)));
    for (const button of buttons) {
      pressable(button, () => act(() => source[button.dataset.move](row.purchase)));
      button.addEventListener("click", () => button.title && setText($("problem"), button.title)); // why it can't be pressed
    }
    rows.set(id, row);
  }
  if (!row.isConnected) $("purchases").append(row);
  row.purchase = purchase;
  const frozen = instance.state === "frozen";
  row.dataset.frozen = frozen;
  const can = { step: stands && instance.state === "running" && !purchase.waits, freeze: frozen || !isOver(purchase), kill: stands, "kill-sent": stands, lost: stands };
  for (const [index, name] of OFFERS.entries()) {
    const button = row.firstChild.children[index];
    const does = name === "freeze" && frozen ? "thaw" : name;
    const recorded = moves?.includes(does) ?? true;
    button.hidden = !offers.includes(name);
    button.dataset.move = does;
    button.dataset.steps = Boolean(moves) && does === "thaw"; // as it was recorded
    setText(button, t(does === "thaw" && moves ? "thawStep" : does, { buyer }));
    allow(button, can[name] && recorded);
    button.title = can[name] && !recorded ? t(`why_${does}`) : "";
  }
  setText(row.lastChild.firstChild, `${buyer} ${statusOf(purchase, context)}`);
}

function statusOf(purchase, { all, queue }) {
  const { instance, stands, point, id, command, waits } = purchase;
  if (purchase.dead) return t("dead");
  if (instance.state === "frozen") return `${t("frozen", { what: onLine(purchase) })}${leaseOf(purchase, queue)}`;
  if (instance.state !== "running") return t("down");
  if (command) return t(waits ? "inVain" : "sends", { command: brief(command) });
  if (stands || point === "over") return pointWords(purchase);
  const place = queue.findIndex(({ owner }) => owner.includes(`thread steps-${id})`));
  if (place > 0) {
    const { owner, token, instance: name } = queue[place - 1];
    const before = all.find((each) => owner.includes(`thread steps-${each.id})`));
    return t("behind", { buyer: before?.buyer ?? name ?? owner, token });
  }
  return t(purchase.guard === "thread" ? "waitsThread" : "waits");
}

// Of a frozen holder, as etcd says: its lease runs out, and then it is not in the queue any more.
function leaseOf({ id, token, outcome, moves }, queue) {
  if (outcome) return "";
  if (token == null) return moves && guard !== "none" ? t("timeOver") : "";
  const place = queue.findIndex(({ owner }) => owner.includes(`thread steps-${id})`));
  if (place > 0 || queue[place]?.ttl_s == null) return place < 0 ? t("leaseEnded") : "";
  return t("leaseLeft", { left: Math.max(queue[place].ttl_s, 0) });
}

function ending({ outcome, point }) {
  if (outcome) return outcome in TEXTS ? t(outcome) : outcome;
  return t(point === "over" ? "failed" : "undecided");
}

function pointWords(purchase) {
  const { point, token, stock_read: value, outcome } = purchase;
  if (point === "over") return ending(purchase);
  if (point === "left") return t(hasLock(purchase) ? "leftLock" : "left", { ended: ending(purchase) });
  if (point === "locked" && token != null) return t("lockedToken", { token: [token].flat().join(".") });
  if (point === "read") return value == null || outcome ? t("decided") : t("read", { value });
  if (point === "write") return value == null ? t("script") : t("write", { value: value - 1 });
  return t(point);
}

const hasLock = ({ guard: name, token }) => token != null || ["thread", "redis-lock"].includes(name);

function onLine(purchase) {
  const { point, outcome, stands, command, stock_read: value } = purchase;
  if (purchase.dead) return t("dead");
  if (outcome) return ending(purchase);
  if (command) return value == null ? t("sendsShort") : t("read", { value });
  return stands || point === "over" ? pointWords(purchase) : t("waits");
}

function toneOf({ outcome, dead }) {
  if (outcome === "sold") return "good";
  return outcome === "lock_lost" || dead ? "warn" : "";
}

// What a refusal says, without the advice for a buyer behind it.
function reason(detail) {
  const [, ours, theirs] = detail.match(FENCED) ?? [];
  if (ours) return t("fencedOff", { ours, theirs });
  return language === "en" ? detail.split(". ")[0] : t("lockEnded");
}

function showResult(all, sale, running, ends) {
  const { stock, orders, items } = sale;
  const has = (outcome) => all.filter((each) => each.outcome === outcome);
  const list = (purchases) => purchases.map(({ buyer }) => buyer).join(language === "zh" ? "、" : " and ");
  const over = all.every(isOver);
  const [sold, lost] = [has("sold"), has("lock_lost")];
  const wrong = wrongWords(all, sale, ends, list);
  let [text, tone, done] = ["", "", false];
  if (orders > items) {
    done = SELLS_TWICE.includes(running) || mistakes.has(running);
    const buyers = list(sold);
    [text, tone] = [items > 1 || sold.length < 2 ? t("soldMore", { orders, items, stock }) : t("soldTwice", { buyers, stock }), done ? "good" : "bad"]; // reaching the aim is green
  } else if (wrong) {
    done = mistakes.has(running);
    [text, tone] = [wrong, done ? "good" : "bad"];
  } else if (lost.length) {
    const [{ buyer, detail }] = lost;
    done = running === "etcd" && FENCED.test(detail);
    [text, tone] = [t("refusedWrite", { buyer, detail: reason(detail) }), done ? "good" : "warn"];
    if (!done && GUARDS.includes(running)) text += ` ${t("freezeLater", { buyer })}`;
  } else if (over && orders >= 1) {
    const between = running === "redis-lua";
    [text, tone, done] = [t(between ? "nothingBetween" : "soldOnce", { buyer: list(sold) || "?" }), between ? "good" : "warn", between];
  } else if (over) text = t("unsold");
  setText($("result"), done ? t("reached", { text }) : text);
  $("result").dataset.tone = tone;
  if (done) solved.add(running);
  const next = levels[levels.indexOf(running) + 1];
  $("next-level").hidden = !done || !next;
  if (next) Object.assign($("next-level"), { value: next, textContent: t("nextLevel", { number: levels.indexOf(next) + 1, guard: next }) });
  for (const button of document.querySelectorAll(".levels button")) button.dataset.solved = solved.has(button.value);
}

// What is wrong at the end, but for an item that is sold twice. `ends`: numbers, as a recording has judged it.
function wrongWords(all, { stock, orders, items }, ends, list) {
  const waiting = all.filter((each) => !isOver(each));
  if (ends) {
    const kind = WORST_FIRST.find((way) => ends[ENDS.indexOf(way)]);
    return kind && kind !== "oversold" ? t(kind, { buyers: list(waiting), stock, orders }) : "";
  }
  if (waiting.length || !all.length) return "";
  if (Number(stock) + orders > items) return t("lost_updates", { stock, orders });
  return Number(stock) + orders < items ? t("unsold_item", { stock, orders }) : "";
}

let last = "A"; // who was stepped by a key

// A, B and C step, with Shift they freeze and thaw; space steps again; N opens the next level. Of a recording, U is undo,
// and K kills the one that was stepped last, behind its command.
function pressKey(event) {
  const { key, target } = event;
  if (event.altKey || event.ctrlKey || event.metaKey || target.matches("input, select") || (key === " " && target.matches("button, a"))) return;
  const buyer = /^[abc]$/i.test(key) ? key.toUpperCase() : key === " " ? last : null;
  const other = { n: $("next-level"), u: $("undo"), k: document.querySelector(`[data-do="kill-sent ${last}"]`) }[key.toLowerCase()];
  const button = buyer ? document.querySelector(`[data-do="${event.shiftKey ? "freeze" : "step"} ${buyer}"]`) : other;
  if (!button || button.hidden || event.repeat) return;
  event.preventDefault();
  if (buyer) last = buyer;
  button.click();
}

function levelButton(name, index) {
  const button = make("button", { type: "button", value: name }, `${index + 1} ${name}`);
  button.addEventListener("click", () => chooseLevel(name));
  return make("li", {}, button);
}

// A mistake is stepped by its commands, and a guard of the shop as the page says, or as it is recorded.
function chooseLevel(name) {
  choose(name, files.get(name)?.().grain ?? (mistakes.has(name) ? COMMANDS : mistakes.has(guard) ? POINTS : grain));
}

for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
document.title = t("title");
for (const id of ["board", "schedules"]) $(id).href = `${$(id).getAttribute("href")}?lang=${language}`;
Object.assign($("language"), { textContent: t("language"), href: `?lang=${language === "zh" ? "en" : "zh"}` });
for (const [id, name] of [["other", "other"], ["grain", "grain"], ["levels", "levels"], ["mistakes", "mistakes"]]) $(id).ariaLabel = t(name);
for (const id of ["other", "grain", "add"]) $(id).hidden = files.size > 0;
for (const id of ["undo", "recorded"]) $(id).hidden = !files.size;
$("begin").addEventListener("click", () => choose(guard));
$("next-level").addEventListener("click", ({ target }) => chooseLevel(target.value));
pressable($("add"), () => act(() => source.add({ guard, grain }, "C")));
pressable($("undo"), () => act(() => source.undo()));
document.addEventListener("keydown", pressKey);
$("token-label").addEventListener("submit", (event) => event.preventDefault());
$("other").addEventListener("change", ({ target }) => target.value && choose(target.value));
$("grain").addEventListener("change", ({ target }) => choose(guard, target.value));

// Once the page knows its guards.
export const ready = source.setup(GUARDS).then((setup) => {
  $("token-label").hidden = !setup.token_needed;
  const translated = language === "en" ? {} : setup.lab_texts;
  mistakes = new Map(setup.mistakes.map((each) => [each.name, { ...each, description: translated[each.description] ?? each.description }]));
  offers = setup.can_freeze ? ["step", "freeze"] : ["step"];
  const others = setup.guards.filter(({ name }) => !GUARDS.includes(name));
  $("other").replaceChildren(new Option(t("other"), ""), ...others.map(({ name, description }) => Object.assign(new Option(name), { title: language === "en" ? description : "" })));
  $("levels").append(...levels.map(levelButton));
  $("mistakes").append(...[...mistakes.keys()].map((name, index) => levelButton(name, levels.length + index)));
  $("levels").hidden = !levels.length;
  $("mistakes").hidden = !mistakes.size;
  levels = [...levels, ...mistakes.keys()];
  select(guard, grain);
});
poll();
setInterval(poll, POLL_MS);
