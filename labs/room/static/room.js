// The room on the board: the address, the crowd with its bets, the sale that the stage begins, and the clashes.

import { chosenLanguage, filled } from "/static/slow/language.js";
import { sentenceOf } from "/static/verdict.js";

const TEXTS = await (await fetch("/room/static/texts.json")).json();
const EVERY_MS = 500;
const THINK_MS = [0, 5, 10, 20, 50, 100, 400];
const BINS = 24;
const MOST_NEAREST = 5;
const MOST_NAMES = 8; // of one clash
const SVG = "http://www.w3.org/2000/svg";

const language = chosenLanguage(Object.keys(TEXTS));
const byId = (id) => document.getElementById(id);
const say = (id, content) => byId(id).textContent !== content && (byId(id).textContent = content);
let setup = null;
let shown = {}; // what was drawn, as JSON
let refusal = "";

const text = (key, values = {}) => filled(TEXTS[language][key], values);

function make(tag, attributes = {}, content = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = content;
  return node;
}

function element(tag, className, content) {
  return Object.assign(document.createElement(tag), { className, textContent: content });
}

function complain(problem) {
  say("problem", problem ?? "");
  byId("problem").hidden = !problem;
}

// Why something was refused: the server's detail is English.
const reason = (status, detail) => (`status.${status}` in TEXTS[language] ? text(`status.${status}`) : detail);

async function post(what, body) {
  const headers = { "Content-Type": "application/json" };
  if (byId("token").value) headers.Authorization = `Bearer ${byId("token").value}`;
  const answer = await fetch(`/room/${what}`, { method: "POST", headers, body: JSON.stringify(body) });
  refusal = answer.ok ? "" : reason(answer.status, (await answer.json()).detail);
  complain(refusal);
  await look();
}

async function begin(event) {
  event.preventDefault();
  const { guard, hold_ms, stock, buyers } = Object.fromEntries(new FormData(byId("begin")));
  const buttons = document.querySelectorAll("#begin button");
  for (const each of buttons) each.disabled = true;
  await post("begin", { guard, hold_ms: Number(hold_ms), stock: Number(stock), buyers: Number(buyers), opens_in_s: Number(event.submitter?.value ?? 0) }).catch(() => complain(text("away")));
  for (const each of buttons) each.disabled = false;
}

const clock = (ms) => `${Math.floor(Math.ceil(ms / 1000) / 60)}:${String(Math.ceil(ms / 1000) % 60).padStart(2, "0")}`;
const phones = (n) => text("phones", { n });
const robots = (n) => (n ? text("and_robots", { n }) : "");

// The headline: { word, lead, tone }.
function headline({ phase, names, sale, shop }) {
  const joined = names.length;
  if (phase === "waiting") return { word: text("joined", { n: joined }), lead: text("scan", { n: byId("begin").elements.stock.value }) };
  const crowd = { phones: phones(joined), robots: robots(sale.robots), guard: sale.guard };
  if (phase === "countdown") return { word: clock(sale.opens_in_ms), lead: text("counting_lead", crowd) };
  const { orders: sold = 0, initial = sale.stock, kind, over } = shop ?? {};
  const lead = text("selling_lead", { ...crowd, items: text("items_for_sale", { n: initial }) });
  if (sold > initial) return { word: text("oversold", { n: sold - initial }), lead: `${text("selling", { sold })} · ${lead}`, tone: "over" };
  if (over && sold === initial && kind === "exact") return { word: text("exact"), lead: `${text("selling", { sold })} · ${lead}`, tone: "exact" };
  if (over && sold && kind !== "exact") return { word: sentenceOf(shop), lead, tone: "lost" };
  return { word: text("selling", { sold }), lead };
}

// The bets as bars, with a line where the stock is and, of an open sale, one where the sales are. A bet on a bar's
// right end belongs to it: what stands behind the line of the stock bets on more.
function drawBets({ bets, phase, sale, shop }) {
  const svg = byId("histogram");
  const { clientWidth: width, clientHeight: height } = svg;
  if (!width) return;
  const em = parseFloat(getComputedStyle(svg).fontSize);
  const stock = sale?.stock ?? Number(byId("begin").elements.stock.value);
  const sold = phase === "open" ? (shop?.orders ?? 0) : null;
  const usual = Math.max(2 * stock, (sold ?? 0) * 1.1, 10);
  const step = niceStep(usual / BINS);
  const bins = Math.ceil(usual / step) + 1; // the last one has all that is beyond
  const counts = Array(bins).fill(0);
  for (const { bet } of bets) counts[Math.min(Math.max(Math.ceil(bet / step) - 1, 0), bins - 1)] += 1;
  const most = Math.max(...counts, 1);
  const foot = height - 1.4 * em;
  const x = (n) => (Math.min(n / step, bins) / bins) * width;
  const nodes = counts.flatMap((n, bin) => (n ? [make("rect", { x: x(bin * step) + 1, y: foot - (n / most) * (foot - em), width: width / bins - 2, height: (n / most) * (foot - em) })] : []));
  nodes.push(make("line", { x1: 0, x2: width, y1: foot, y2: foot }));
  const labels = niceStep(usual / 6);
  for (let n = labels; n < usual; n += labels) nodes.push(make("text", { x: x(n), y: height - 0.25 * em }, String(n)));
  nodes.push(make("line", { class: "stock", x1: x(stock), x2: x(stock), y1: 0, y2: foot }));
  if (sold) nodes.push(make("line", { class: sold > stock ? "sold over" : "sold", x1: x(sold), x2: x(sold), y1: 0, y2: foot }));
  svg.replaceChildren(...nodes);
}

function niceStep(least) {
  const tens = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * tens).find((n) => n >= least) ?? 1;
}

function nearest({ bets, phase, shop }) {
  if (phase !== "open" || !shop?.over || !shop.orders || !bets.length) return "";
  const sold = shop.orders;
  const far = ({ bet }) => Math.abs(bet - sold);
  const best = Math.min(...bets.map(far));
  const found = bets.filter((each) => far(each) === best);
  const names = found.slice(0, MOST_NEAREST).map((each) => text("nearest_name", each));
  if (found.length > MOST_NEAREST) names.push(text("more", { n: found.length - MOST_NEAREST }));
  return text("nearest", { sold, names: names.join(text("separator")) });
}

function clash({ number, names, robots: n }) {
  const row = element("li", "", "");
  const told = names.slice(0, MOST_NAMES);
  if (names.length > MOST_NAMES) told.push(text("more", { n: names.length - MOST_NAMES }));
  const who = element("span", "", told.join(text("separator")));
  if (n) who.append(element("span", "robots", `${told.length ? text("separator") : ""}${text("robots", { n })}`));
  row.append(element("b", "", text("item", { n: number })), who);
  return row;
}

function drawLanes(lanes) {
  const svg = byId("lane-drawing");
  const { clientWidth: width, clientHeight: height } = svg;
  if (!width) return;
  const em = parseFloat(getComputedStyle(svg).fontSize);
  const bars = lanes.flatMap((lane) => lane.bars);
  const from = Math.min(...bars.map(([begin]) => begin));
  const to = Math.max(...bars.map(([begin, end]) => end ?? begin), from + 1);
  const x = (at) => ((at - from) / (to - from)) * (width - 2);
  const nodes = lanes.flatMap(({ name, bars: own }, index) => {
    const [top, high] = [(index * height) / lanes.length, height / lanes.length - 1.7 * em];
    const rows = layRows(own);
    const pitch = Math.min(high / rows.length, 3 * em);
    const path = (isPhone) => rows.flatMap((row, place) => row.filter((bar) => bar[2] === isPhone).map(([begin, end]) => `M${x(begin).toFixed(1)} ${(top + 1.5 * em + place * pitch).toFixed(1)}h${Math.max(x(end ?? to) - x(begin), 1.5).toFixed(1)}v${Math.max(pitch * 0.86, 1).toFixed(1)}H${x(begin).toFixed(1)}z`)).join("");
    return [make("text", { x: 0, y: top + 1.1 * em }, name), make("path", { class: "other", d: path(false) }), make("path", { class: "of-phone", d: path(true) })];
  });
  svg.replaceChildren(...nodes);
}

// Bars that overlap stand in different rows.
function layRows(bars) {
  const rows = [];
  for (const bar of [...bars].sort((a, b) => a[0] - b[0])) {
    const row = rows.find((each) => (each.at(-1)[1] ?? Infinity) <= bar[0]);
    if (row) row.push(bar);
    else rows.push([bar]);
  }
  return rows;
}

// Draws a part again only if what it shows has changed.
function once(part, state, draw) {
  const key = JSON.stringify([state, innerWidth, innerHeight]);
  if (shown[part] !== key) draw();
  shown[part] = key;
}

function name(who) {
  const button = element("button", "", who);
  button.title = text("remove", { name: who });
  button.addEventListener("click", () => post("remove", { name: who }));
  const item = element("li", "", "");
  item.append(button);
  return item;
}

function draw(state) {
  document.querySelector("main").dataset.phase = state.phase;
  byId("next").hidden = state.phase === "waiting";
  const { word, lead, tone } = headline(state);
  say("headline", word);
  say("lead", lead);
  byId("headline").dataset.tone = tone ?? "";
  say("bets-note", text("bets_note", { n: state.bets.length }));
  say("nearest", nearest(state));
  const { bets, phase, sale, shop, clashes } = state;
  once("bets", [bets, phase, sale?.stock, shop?.orders, byId("begin").elements.stock.value, byId("histogram").clientHeight], () => drawBets(state));
  once("names", state.names, () => byId("names").replaceChildren(...state.names.map(name)));
  once("clashes", clashes, () => byId("clash-list").replaceChildren(...clashes.map(clash)));
  say("clashes-note", clashes.length ? text("clashes_note", { n: clashes.length }) : "");
  say("no-clashes", text(shop?.orders ? "clashes_none" : "clashes_before"));
  byId("no-clashes").hidden = clashes.length > 0;
  if (phase === "open") once("lanes", state.lanes, () => drawLanes(state.lanes));
}

async function look() {
  const answer = await fetch("/room/state");
  const state = await answer.json();
  if (!answer.ok) return complain(reason(answer.status, state.detail));
  complain(refusal);
  document.querySelector("main").hidden = false;
  draw(state);
}

function prepare() {
  const { elements } = byId("begin");
  byId("guard").replaceChildren(...setup.guards.map((guard) => new Option(guard)));
  byId("think").replaceChildren(...THINK_MS.map((ms) => new Option(`${ms} ms`, ms, ms === 20, ms === 20)));
  elements.stock.value = setup.stock;
  byId("token-row").hidden = !setup.token_needed;
  for (const seconds of [30, 10]) {
    say(`in${seconds}`, text("in", { n: seconds }));
    byId(`in${seconds}`).hidden = !setup.can_schedule;
  }
  say("url", setup.address ?? "");
  Object.assign(byId("code"), { src: "/room/code.svg", alt: text("code", { url: setup.url }) });
  say("pin", setup.pin ? text("pin", { pin: setup.pin }) : "");
  byId("pin").hidden = !setup.pin;
}

document.documentElement.lang = language;
document.title = text("title");
for (const each of document.querySelectorAll("[data-text]")) each.textContent = text(each.dataset.text);
byId("language").href = `?lang=${language === "en" ? "zh" : "en"}`;
byId("board").href = `/?lang=${language}`;
byId("begin").addEventListener("submit", begin);
byId("next").addEventListener("click", () => post("end", {}));
setup = await (await fetch("/room/setup")).json();
if (setup.url) {
  prepare();
  setInterval(() => look().catch(() => complain(text("away"))), EVERY_MS);
  look();
} else {
  byId("begin").hidden = true;
  complain(text("status.404"));
}
