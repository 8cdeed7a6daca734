// "You are the scheduler": two purchases that go on only when told so, through the real Redis and the real etcd.

import { chosenLanguage } from "/static/slow/language.js";
import { speaker } from "/static/slow/texts.js";
import { allow, make, pressable, setText } from "/static/slow/code.js";
import { Stage } from "/static/slow/stage.js";
import { TEXTS } from "./texts.js";

const LEVELS = ["none", "thread", "etcd-unfenced", "etcd-checked", "etcd", "redis-lua"];
const SELLS_TWICE = LEVELS.slice(0, 4);
const POLL_MS = 400;
const FENCED = /token ([\d.]+) is fenced off, ([\d.]+) was here/;
const $ = (id) => document.getElementById(id);

const language = (document.documentElement.lang = chosenLanguage(["en", "zh"]));
const t = speaker(TEXTS, language);
const stage = new Stage($("stage"), t);
const rows = new Map(); // of a purchase's controls, by its id
const solved = new Set();
let guard = LEVELS[0];
let setup = { guards: [] };
let waiting = 0; // requests, which wait for each other: an older state must not replace a newer one
let turn = Promise.resolve();
let focused = ""; // the button that had the keyboard's focus when its level ended; in the next one it has it again
let mayBegin = document.body.dataset.begins === "true" && !location.hash; // a link of another site begins nothing, and a schedule its own guard

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  if ($("token").value) headers.Authorization = `Bearer ${$("token").value}`;
  const response = await fetch(path, body && { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(`status_${response.status}` in TEXTS ? t(`status_${response.status}`) : answer.detail);
  return answer;
}

function act(path, body) {
  waiting += 1;
  if (body) $("purchases").ariaBusy = "true"; // until what came of it is shown
  turn = turn
    .then(() => ask(path, body))
    .then((answer) => {
      if (answer.instances && waiting === 1) show(answer); // else a newer one follows
      if (body) setText($("problem"), "");
    })
    .catch((error) => setText($("problem"), error instanceof TypeError ? t("noAnswer") : error.message))
    .finally(() => {
      waiting -= 1;
      if (!waiting) $("purchases").ariaBusy = "false";
    });
}

const poll = () => document.hidden || waiting || act("/steps/state");

function choose(name) {
  const held = document.activeElement;
  focused = held === $("next-level") ? "step A" : (held?.dataset.do ?? "");
  select(name);
  $("purchases").replaceChildren(); // those end now
  act("/steps/begin", { guard });
}

function select(name) {
  guard = name;
  for (const button of $("levels").querySelectorAll("button")) button.ariaCurrent = button.value === name ? "true" : null;
  $("other").value = LEVELS.includes(name) ? "" : name;
  setText($("task"), t(LEVELS.includes(name) ? `task_${name}` : "task"));
  $("next-level").hidden = true;
}

function show({ instances, sale, queue }) {
  const all = instances.flatMap((instance) => instance.purchases.map((purchase) => ({ ...purchase, instance })));
  all.sort((a, b) => a.buyer.localeCompare(b.buyer));
  const running = all[0]?.guard;
  if (running && running !== guard && waiting === 1) select(running); // another viewer has chosen it
  if (mayBegin && !all.length) choose(guard);
  mayBegin = false;
  const source = all[0]?.source ?? { file: "", first_line: 0, text: "" };
  const markers = all.map((purchase) => ({ line: purchase.line, label: purchase.buyer, colour: instances.indexOf(purchase.instance), text: onLine(purchase), tone: purchase.instance.state === "frozen" ? "warn" : toneOf(purchase), current: purchase.stands }));
  const ours = all.length > 0 && sale.orders <= all.length && sale.stock <= 1; // or another sale has begun before or since
  const tokens = [sale.fence, ...all.map(({ token }) => token)].filter((token) => token != null);
  stage.show({
    source,
    instances: instances.map(({ name }) => name),
    markers: markers.filter(({ line }) => line != null),
    figures: [
      [t("counter"), ours ? (sale.stock ?? "?") : "–"],
      [t("ledger"), ours ? sale.orders : "–", ours && sale.orders > 1 ? "bad" : ""],
      [t("queue"), queue.length],
      [t("token"), ours && tokens.length ? tokens.map((each) => [each].flat().join(".")).sort(byNumber).at(-1) : "–"],
    ],
  });
  for (const old of $("purchases").querySelectorAll(".purchase")) if (!all.some(({ id }) => old.dataset.id === id)) old.remove();
  for (const purchase of all) showControls(purchase, { all, queue, colour: instances.indexOf(purchase.instance) });
  if (all.length && focused) document.querySelector(`[data-do="${focused}"]`)?.focus();
  focused = "";
  const over = all.every(({ point }) => point === "over"); // also before the first one
  $("begin").className = over ? "main" : "";
  allow($("add"), !over && all.length < 3);
  if (ours) showResult(all, sale, running);
  else setText($("result"), "");
}

const byNumber = (a, b) => parseFloat(a) - parseFloat(b);

function showControls(purchase, context) {
  const { id, buyer, instance, stands, point } = purchase;
  let row = rows.get(id);
  if (!row) {
    const [step, freeze] = ["step", "freeze"].map((name) => make("button", { type: "button", class: name === "step" ? "main" : "", "data-do": `${name} ${buyer}` }));
    row = make("div", { class: `purchase colour-${context.colour % 4}`, "data-id": id }, step, freeze, make("p", { "aria-live": "polite" }, make("span"), make("small", {}, instance.name)));
    pressable(step, () => act("/steps/step", { id }));
    pressable(freeze, () => act("/control/instance", { instance: row.dataset.instance, action: row.dataset.frozen === "true" ? "thaw" : "freeze" }));
    rows.set(id, row);
  }
  if (!row.isConnected) $("purchases").append(row);
  const frozen = instance.state === "frozen";
  Object.assign(row.dataset, { frozen, instance: instance.name });
  const [step, freeze, said] = row.children;
  setText(step, t("step", { buyer }));
  allow(step, stands && instance.state === "running");
  setText(freeze, t(frozen ? "thaw" : "freeze", { buyer }));
  freeze.hidden = !setup.can_freeze;
  allow(freeze, frozen || point !== "over");
  setText(said.firstChild, `${buyer} ${statusOf(purchase, context)}`);
}

function statusOf(purchase, { all, queue }) {
  const { instance, stands, point, id } = purchase;
  if (instance.state === "frozen") return `${t("frozen", { what: onLine(purchase) })}${leaseOf(purchase, queue)}`;
  if (instance.state !== "running") return t("down");
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
function leaseOf({ id, token, outcome }, queue) {
  if (token == null || outcome) return "";
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
  const { point, outcome, stands } = purchase;
  if (outcome) return ending(purchase);
  return stands || point === "over" ? pointWords(purchase) : t("waits");
}

function toneOf({ outcome }) {
  if (outcome === "sold") return "good";
  return outcome === "lock_lost" ? "warn" : "";
}

// What a refusal says, without the advice for a buyer behind it.
function reason(detail) {
  const [, ours, theirs] = detail.match(FENCED) ?? [];
  if (ours) return t("fencedOff", { ours, theirs });
  return language === "en" ? detail.split(". ")[0] : t("lockEnded");
}

function showResult(all, { stock, orders }, running) {
  const has = (outcome) => all.filter((each) => each.outcome === outcome);
  const over = all.every(({ point }) => point === "over");
  const [sold, lost] = [has("sold"), has("lock_lost")];
  let [text, tone, done] = ["", "", false];
  if (orders > 1) {
    const buyers = sold.map(({ buyer }) => buyer).join(language === "zh" ? "、" : " and ");
    done = SELLS_TWICE.includes(running);
    [text, tone] = [t("soldTwice", { buyers, stock }), done ? "good" : "bad"]; // reaching the aim is green
  } else if (lost.length) {
    const [{ buyer, detail }] = lost;
    done = running === "etcd" && FENCED.test(detail);
    [text, tone] = [t("refusedWrite", { buyer, detail: reason(detail) }), done ? "good" : "warn"];
    if (!done && LEVELS.includes(running)) text += ` ${t("freezeLater", { buyer })}`;
  } else if (over && orders === 1) {
    const between = running === "redis-lua";
    [text, tone, done] = [t(between ? "nothingBetween" : "soldOnce", { buyer: sold[0]?.buyer ?? "?" }), between ? "good" : "warn", between];
  } else if (over) text = t("unsold");
  setText($("result"), done ? t("reached", { text }) : text);
  $("result").dataset.tone = tone;
  if (done) solved.add(running);
  const next = LEVELS[LEVELS.indexOf(running) + 1];
  $("next-level").hidden = !done || !next;
  if (next) Object.assign($("next-level"), { value: next, textContent: t("nextLevel", { number: LEVELS.indexOf(next) + 1, guard: next }) });
  for (const button of $("levels").querySelectorAll("button")) button.dataset.solved = solved.has(button.value);
}

let last = "A"; // who was stepped by a key

// A, B and C step, with Shift they freeze and thaw; space steps again; N opens the next level.
function press(event) {
  const { key, target } = event;
  if (event.altKey || event.ctrlKey || event.metaKey || target.matches("input, select") || (key === " " && target.matches("button, a"))) return;
  const buyer = /^[abc]$/i.test(key) ? key.toUpperCase() : key === " " ? last : null;
  const button = buyer ? document.querySelector(`[data-do="${event.shiftKey ? "freeze" : "step"} ${buyer}"]`) : /^n$/i.test(key) ? $("next-level") : null;
  if (!button || button.hidden || event.repeat) return;
  event.preventDefault();
  if (buyer) last = buyer;
  button.click();
}

for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
document.title = t("title");
$("board").href = `/?lang=${language}`;
Object.assign($("language"), { textContent: t("language"), href: `/steps?lang=${language === "zh" ? "en" : "zh"}` });
$("levels").append(
  ...LEVELS.map((name, index) => {
    const button = make("button", { type: "button", value: name }, `${index + 1} ${name}`);
    button.addEventListener("click", () => choose(name));
    return make("li", {}, button);
  }),
);
$("other").ariaLabel = t("other");
$("begin").addEventListener("click", () => choose(guard));
$("next-level").addEventListener("click", ({ target }) => choose(target.value));
pressable($("add"), () => act("/steps/add", { guard, buyer: "C" }));
document.addEventListener("keydown", press);
$("token-label").addEventListener("submit", (event) => event.preventDefault());
$("other").addEventListener("change", ({ target }) => target.value && choose(target.value));
ask("/setup").then((told) => {
  setup = told;
  $("token-label").hidden = !told.token_needed;
  const others = told.guards.filter(({ name }) => !LEVELS.includes(name));
  $("other").replaceChildren(new Option(t("other"), ""), ...others.map(({ name, description }) => Object.assign(new Option(name), { title: language === "en" ? description : "" })));
  select(guard);
});
poll();
setInterval(poll, POLL_MS);
