// "You are the scheduler": two purchases that go on only when told so, through the real Redis and the real etcd.

import { chosenLanguage } from "/static/slow/language.js";
import { speaker } from "/static/slow/texts.js";
import { make, setText, Stage } from "/static/slow/stage.js";
import { TEXTS } from "./texts.js";

const LEVELS = ["none", "thread", "etcd-unfenced", "etcd", "redis-lua"];
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
  turn = turn
    .then(() => ask(path, body))
    .then((answer) => {
      if (answer.instances) show(answer);
      if (body) setText($("problem"), "");
    })
    .catch((error) => setText($("problem"), error instanceof TypeError ? t("noAnswer") : error.message))
    .finally(() => (waiting -= 1));
}

const poll = () => document.hidden || waiting || act("/steps/state");

function choose(name) {
  select(name);
  act("/steps/begin", { guard });
}

function select(name) {
  guard = name;
  for (const button of $("levels").querySelectorAll("button")) button.ariaCurrent = button.value === name ? "true" : null;
  $("other").value = LEVELS.includes(name) ? "" : name;
  setText($("task"), t(LEVELS.includes(name) ? `task_${name}` : "task"));
}

function show({ instances, sale, queue }) {
  const all = instances.flatMap((instance) => instance.purchases.map((purchase) => ({ ...purchase, instance })));
  all.sort((a, b) => a.buyer.localeCompare(b.buyer));
  const running = all[0]?.guard;
  if (running && running !== guard && waiting === 1) select(running); // another viewer has chosen it
  const columns = instances.map(({ name, state, purchases }, colour) => {
    const source = purchases[0]?.source ?? all[0]?.source ?? { file: "", first_line: 0, text: "" };
    const markers = purchases.map((purchase) => ({ line: purchase.line, label: purchase.buyer, text: onLine(purchase), tone: state === "frozen" ? "warn" : toneOf(purchase), current: purchase.stands }));
    return { name, colour, source, markers: markers.filter(({ line }) => line != null) };
  });
  const ours = all.length > 0 && sale.orders <= all.length && sale.stock <= 1; // or another sale has begun before or since
  const tokens = [sale.fence, ...all.map(({ token }) => token)].filter((token) => token != null);
  stage.show({
    columns,
    middle: [
      [t("counter"), ours ? (sale.stock ?? "?") : "–"],
      [t("ledger"), ours ? sale.orders : "–", ours && sale.orders > 1 ? "bad" : ""],
      [t("queue"), queue.length],
      [t("token"), ours && tokens.length ? tokens.map((each) => [each].flat().join(".")).sort(byNumber).at(-1) : "–"],
    ],
  });
  for (const instance of instances) {
    const slot = stage.slot(instance.name);
    const own = all.filter((purchase) => purchase.instance === instance);
    for (const old of slot.querySelectorAll(".purchase")) if (!own.some(({ id }) => old.dataset.id === id)) old.remove();
    for (const purchase of own) showControls(slot, purchase, { all, queue });
  }
  const over = all.every(({ point }) => point === "over"); // also before the first one
  $("begin").className = over ? "main" : "";
  $("add").disabled = over || all.length > 2;
  if (ours) showResult(all, sale, running);
  else setText($("result"), "");
}

const byNumber = (a, b) => parseFloat(a) - parseFloat(b);

function showControls(slot, purchase, context) {
  const { id, buyer, instance, stands, point } = purchase;
  let row = rows.get(id);
  if (!row) {
    const [step, freeze] = ["step", "freeze"].map((name) => make("button", { type: "button", class: name === "step" ? "main" : "", "data-do": `${name} ${buyer}` }));
    row = make("div", { class: "purchase", "data-id": id }, step, freeze, make("p", { "aria-live": "polite" }));
    step.addEventListener("click", () => act("/steps/step", { id }));
    freeze.addEventListener("click", () => act("/control/instance", { instance: row.dataset.instance, action: row.dataset.frozen === "true" ? "thaw" : "freeze" }));
    rows.set(id, row);
  }
  if (row.parentElement !== slot) slot.append(row);
  const frozen = instance.state === "frozen";
  Object.assign(row.dataset, { frozen, instance: instance.name });
  const [step, freeze, said] = row.children;
  setText(step, t("step", { buyer }));
  step.disabled = !stands || instance.state !== "running";
  setText(freeze, t(frozen ? "thaw" : "freeze", { buyer }));
  freeze.hidden = !setup.can_freeze;
  freeze.disabled = point === "over" && !frozen;
  setText(said, `${buyer} ${statusOf(purchase, context)}`);
}

function statusOf(purchase, { all, queue }) {
  const { instance, stands, point, id } = purchase;
  if (instance.state === "frozen") return t("frozen", { what: onLine(purchase) });
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

function ending({ outcome, point }) {
  if (outcome) return outcome in TEXTS ? t(outcome) : outcome;
  return t(point === "over" ? "failed" : "undecided");
}

function pointWords(purchase) {
  const { point, token, stock_read: value, outcome } = purchase;
  if (point === "over") return ending(purchase);
  if (point === "left") return t("left", { ended: ending(purchase) });
  if (point === "locked" && token != null) return t("lockedToken", { token: [token].flat().join(".") });
  if (point === "read") return value == null || outcome ? t("decided") : t("read", { value });
  if (point === "write") return value == null ? t("script") : t("write", { value: value - 1 });
  return t(point);
}

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
    [text, tone, done] = [t("soldTwice", { buyers, stock }), "bad", !["etcd", "redis-lua"].includes(running)];
  } else if (lost.length) {
    const [{ buyer, detail }] = lost;
    [text, tone, done] = [t("refusedWrite", { buyer, detail: reason(detail) }), "good", running === "etcd"];
  } else if (over && orders === 1) {
    const between = running === "redis-lua";
    [text, tone, done] = [t(between ? "nothingBetween" : "soldOnce", { buyer: sold[0]?.buyer ?? "?" }), between ? "good" : "warn", between];
  } else if (over) text = t("unsold");
  setText($("result"), text);
  $("result").dataset.tone = tone;
  if (done) solved.add(running);
  for (const button of $("levels").querySelectorAll("button")) button.dataset.solved = solved.has(button.value);
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
$("begin").addEventListener("click", () => choose(guard));
$("add").addEventListener("click", () => act("/steps/add", { guard, buyer: "C" }));
$("token-label").addEventListener("submit", (event) => event.preventDefault());
$("other").addEventListener("change", ({ target }) => target.value && choose(target.value));
ask("/setup").then((told) => {
  setup = told;
  $("token-label").hidden = !told.token_needed;
  const others = told.guards.filter(({ name }) => !LEVELS.includes(name));
  $("other").replaceChildren(new Option("–", ""), ...others.map(({ name, description }) => Object.assign(new Option(name), { title: language === "en" ? description : "" })));
  select(guard);
});
poll();
setInterval(poll, POLL_MS);
