// The verdict of a sale, in the words of the shop and the terminal.

import { count, plural } from "./dom.js";

export const MARKS = {
  ready: "M12 4a8 8 0 1 0 0 16a8 8 0 1 0 0-16m0 2.6a5.4 5.4 0 1 1 0 10.8a5.4 5.4 0 1 1 0-10.8",
  exact: "M9.2 19.2L2.6 12.6l2.3-2.3l4.3 4.2L19.1 4.6l2.3 2.3z",
  over: "M12 2.5L23 21H1zm-1.3 6.5v6h2.6V9zm0 7.5v2.5h2.6v-2.5z",
  under: "M12 21.5L1 3h22zm-1.3-6.5h2.6V9h-2.6zm0-7.500v-2.5h2.6v2.5z",
  lost: "M4 7h16v3H4zm0 7h16v3H4zM15.500 3l2 1L8.500 21l-2-1z",
};

export function toneOf(verdict) {
  if (verdict.includes("OVERSOLD")) return "over";
  if (verdict.includes("UNDERSOLD")) return "under";
  return verdict.startsWith("EXACT") ? "exact" : "lost";
}

// "EXACT" is not final while items are left and buyers may come.
export const sentenceOf = ({ verdict, stock }, over) => (verdict === "EXACT" && stock !== 0 && !over ? `${verdict} so far` : verdict);

function beforeTheFirst({ initial }, { opening, unavailable }) {
  const items = plural(initial, "item");
  const at = (ms) => new Date(ms).toISOString().slice(11, 23);
  if (!opening && unavailable?.etcd) return { tone: "ready", word: items, lead: "Only etcd knows whether the sale is open." };
  if (!opening) return { tone: "ready", word: `${items} for sale`, lead: "Nothing is sold yet." };
  if (!opening.opens_at_ms) return { tone: "ready", word: "Closed", lead: `${items} for sale after a reset or at a set time.` };
  const left = Math.max(0, Math.ceil((opening.opens_at_ms - Date.now()) / 1000));
  const leader = opening.leader ? `${opening.leader} leads, and will open the sale.` : "The instances elect a leader.";
  return { tone: "ready", word: `Opens in ${left} s`, lead: `${items}, at ${at(opening.opens_at_ms)} UTC. ${leader}` };
}

// The sentence of the page: { tone, word, lead }.
export function headline(view) {
  const { sale, guard } = view;
  if (!sale && view.unavailable?.redis) return { tone: "ready", word: "Redis is unavailable", lead: "What was sold cannot be seen." };
  if (!sale) return { tone: "ready", word: "No sale yet", lead: "It opens with the first purchase, or with a reset." };
  const under = guard ? ` under ${guard}` : "";
  if (!sale.orders && (sale.stock ?? sale.initial) === sale.initial && (view.opening || sale.verdict === "EXACT")) return beforeTheFirst(sale, view);
  const over = Math.max(0, sale.orders - sale.initial);
  const tone = toneOf(sale.verdict);
  const word = sentenceOf(sale, view.over);
  const left = Math.min(sale.stock ?? Infinity, sale.initial - sale.orders); // of a recorded run the counter was only sampled
  if (over) {
    const counter = sale.stock > 0 ? `The counter still says ${count(sale.stock)} left.` : "The counter says 0 left, and looks right.";
    return { tone, word, lead: `${plural(sale.orders, "order")} for ${plural(sale.initial, "item")}${under}. ${sale.stock == null ? "" : counter}` };
  }
  const sold = `${count(sale.orders)} of ${plural(sale.initial, "item")} sold${under}`;
  if (tone === "lost") return { tone, word, lead: `${sold}, but the counter says ${count(sale.stock)} left.` };
  const gaveUp = sale.gave_up ? ` ${plural(sale.gave_up, "buyer")} gave up waiting.` : "";
  const busy = sale.busy ? ` ${plural(sale.busy, "buyer")} ${sale.busy > 1 ? "were" : "was"} told that the shop is busy.` : "";
  return { tone, word, lead: `${sold}${left > 0 ? `, ${count(left)} left.` : ". Nothing is left."}${gaveUp}${busy}` };
}

// The page in words, for screen readers: the verdict, the holder, the number of waiters, and which instances stand still.
export function inWords(view) {
  const { word, lead } = headline(view);
  const parts = [`${word}. ${lead}`];
  const { queue, instances } = view;
  if (queue?.holder) parts.push(`${queue.holder.instance ?? queue.holder.owner} holds the lock, ${count(queue.waiting)} wait for it.`);
  for (const { name, state } of instances) if (["frozen", "down", "silent"].includes(state)) parts.push(`${name} is ${state}.`);
  return parts.join(" ");
}
