// The first page: a card for each page of the site, below two recorded rushes, sold one after the other.

import { $, say } from "/static/dom.js";
import { make } from "/static/slow/code.js";
import { speaker } from "/static/slow/texts.js";
import { Stock } from "/static/stock.js";
import { language } from "/static/texts.js";
import { recorded } from "./recorded.js";
import { TEXTS } from "./texts.js";

const [PLAYED_MS, SHOWN_MS] = [5000, 2500]; // a rush, and its end
const t = speaker(TEXTS, language);
const { cards, sales } = recorded; // a sale: { guard, stock, buyers, orders: times in ms }
const stock = new Stock($("stock"));
let [index, began, frame] = [0, 0, 0];

// The share of the rush that is over, 0 to 1.
function show(share) {
  const { guard, stock: initial, orders } = sales[index];
  const sold = orders.filter((at) => at <= share * orders.at(-1)).length;
  stock.show({ initial, orders: sold });
  say($("sale"), t(guard === "none" ? "unlocked" : "locked"));
}

function turn(now) {
  began ||= now;
  if (now - began > PLAYED_MS + SHOWN_MS) [index, began] = [(index + 1) % sales.length, now];
  show(Math.min((now - began) / PLAYED_MS, 1));
  frame = requestAnimationFrame(turn);
}

// What moves for longer than a few seconds can be stopped.
function toggle() {
  if (frame) cancelAnimationFrame(frame);
  [frame, began] = [frame ? 0 : requestAnimationFrame(turn), 0];
  say($("pause"), t(frame ? "pause" : "go_on"));
}

document.documentElement.lang = language;
document.title = t("title");
const sold = Object.fromEntries(sales.map(({ guard, orders }) => [guard, orders.length]));
for (const node of document.querySelectorAll("[data-site]")) node.textContent = t(node.dataset.site, { ...sales[0], ...sold });
Object.assign($("language"), { textContent: t("language"), href: `?lang=${language === "zh" ? "en" : "zh"}` });
const card = (name) => make("li", {}, make("a", { href: `${name}.html?lang=${language}` }, make("h2", {}, t(name)), make("p", {}, t(`${name}_about`))));
$("cards").append(...cards.map(card));
$("pause").addEventListener("click", toggle);
if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
  say($("pause"), t("play"));
  show(1);
} else toggle();
new ResizeObserver(() => frame || show(1)).observe($("stock"));
