// The verdict of a sale, and the page's headline.

import { count, sentences, text } from "./texts.js";

export const MARKS = {
  ready: "M12 4a8 8 0 1 0 0 16a8 8 0 1 0 0-16m0 2.6a5.4 5.4 0 1 1 0 10.8a5.4 5.4 0 1 1 0-10.8",
  exact: "M9.2 19.2L2.6 12.6l2.3-2.3l4.3 4.2L19.1 4.6l2.3 2.3z",
  over: "M12 2.5L23 21H1zm-1.3 6.5v6h2.6V9zm0 7.5v2.5h2.6v-2.5z",
  under: "M12 21.5L1 3h22zm-1.3-6.5h2.6V9h-2.6zm0-7.500v-2.5h2.6v2.5z",
  lost: "M4 7h16v3H4zm0 7h16v3H4zM15.500 3l2 1L8.500 21l-2-1z",
};
const TONES = { awaited: "ready", exact: "exact", oversold: "over", undersold: "under", flawed: "lost", no_verdict: "lost" };
export const toneOf = ({ kind }) => TONES[kind] ?? "lost";

// The verdict in words, from its findings; see app/contract/verdict.py.
export function sentenceOf({ kind, findings }) {
  if (kind === "awaited") return "…"; // the buyers are on their way
  return Object.entries(findings).map(([name, n]) => text(`verdict.${name}`, { n })).join(", ");
}

// "EXACT" is not final while items are left and buyers may come.
export function sentenceSoFar(sale, over) {
  const sentence = sentenceOf(sale);
  return sale.kind === "exact" && sale.stock !== 0 && !over ? text("head.so_far", { verdict: sentence }) : sentence;
}

// In a word or a number, for a row: the mark beside it says the rest.
export function shortOf(sale, over) {
  const { kind, findings } = sale;
  if (kind === "oversold") return `+${count(Math.max(0, sale.orders - sale.initial))}`;
  if (kind === "undersold") return `−${count(findings.undersold)}`;
  if (kind === "exact") return over ? text("verdict.exact") : "…"; // not final yet
  if (kind === "awaited") return "…";
  return text(kind === "no_verdict" ? "short.none" : "short.flawed");
}

export const guardText = (guard) => (guard === "mixed" ? text("several_guards") : (guard ?? text("no_guard")));

// The sentence of the page: { tone, word, lead }.
export function headline(view) {
  const { sale, arrival } = view;
  const guard = guardText(view.guard);
  if (arrival) {
    const lead = view.locust?.notice || text("head.arrival_lead", { guard: arrival.guard });
    return { tone: "ready", word: text("head.arrival", { here: arrival.here, buyers: arrival.buyers }), lead };
  }
  if (!sale && view.unavailable?.redis) return { tone: "ready", word: text("head.redis_away"), lead: text("head.redis_away_lead") };
  if (!sale) return { tone: "ready", word: text("head.no_sale"), lead: text("head.no_sale_lead") };
  if (!sale.orders && (sale.stock ?? sale.initial) === sale.initial && sale.kind === "exact") {
    return { tone: "ready", word: text("head.for_sale", { n: sale.initial }), lead: text("head.for_sale_lead") };
  }
  const tone = toneOf(sale);
  const word = sentenceSoFar(sale, view.over);
  const items = text("head.items", { n: sale.initial });
  if (sale.orders > sale.initial) {
    const counter = sale.stock == null ? "" : sale.stock > 0 ? text("head.counter", { n: sale.stock }) : text("head.counter_0");
    return { tone, word, lead: sentences([text("head.orders", { n: sale.orders, items, guard }), counter]) };
  }
  const sold = { sold: sale.orders, items, guard };
  if (tone === "lost") return { tone, word, lead: text("head.lost", { ...sold, left: sale.stock }) };
  const n = Math.min(sale.stock ?? Infinity, sale.initial - sale.orders); // of a recorded run the counter was only sampled
  const lead = [text("head.sold", sold), n > 0 ? text("head.left", { n }) : text("head.none_left")];
  if (sale.gave_up) lead.push(text("head.gave_up", { n: sale.gave_up }));
  return { tone, word, lead: sentences(lead) };
}

// The page in words, for screen readers: the verdict, the holder, the number of waiters, and which instances stand still.
export function inWords(view) {
  const { word, lead } = headline(view);
  const parts = [`${word}. ${lead}`];
  const { queue, instances } = view;
  if (queue?.holder) parts.push(text("head.holder", { name: queue.holder.instance ?? queue.holder.owner, n: queue.waiting }));
  for (const { name, state } of instances) if (["frozen", "down", "silent"].includes(state)) parts.push(text("head.state", { name, state: text(`state.${state}`) }));
  return parts.join(" ");
}
