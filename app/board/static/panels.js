// The panels of text: verdict, runs, queue and instances.

import { $, count, duration, keyed, say, setAll, tokenText } from "./dom.js";
import { recordedInstances } from "./record.js";
import { headline, inWords, MARKS, sentenceOf, toneOf } from "./verdict.js";

const STATES = { up: "", busy: "", recorded: "", silent: "not responding" }; // the others are shown by their names
const LISTEN_MS = 4000;
const WAITERS = 6;
const MANY_INSTANCES = 4; // above which several stand in a row
const MANY_RUNS = 6; // from which on rows are small and take room from the queue

export function showVerdict(view) {
  const { tone, word, lead } = headline(view);
  $("verdict").dataset.tone = tone;
  setAll($("mark"), { d: MARKS[tone] });
  say($("word"), word);
  say($("lead"), lead);
  document.title = `${word} · Flash sale`;
  const { sale } = view;
  const figures = sale
    ? [
        ["sold", "sold", sale.orders, sale.orders > sale.initial],
        ["counter", "on the counter", sale.stock, false],
        ["oversold", "oversold", Math.max(0, sale.orders - sale.initial), true],
        ["lost", "lost updates", sale.lost_updates, true],
        ...(sale.gave_up ? [["gave-up", "gave up", sale.gave_up, false]] : []),
        ...(sale.busy ? [["busy", "told busy", sale.busy, false]] : []),
      ]
    : [];
  keyed($("figures"), figures, ([key]) => key, (node, [, name, number, bad]) => {
    say(node.firstChild, name);
    say(node.lastChild, count(number));
    node.className = bad && number > 0 ? "bad" : "";
  });
}

// Where the items that are left lie, if they are divided over shards.
export function showSlots(sale) {
  const { slots, initial } = sale ?? {};
  $("slots").hidden = !slots;
  if (!slots) return;
  const share = initial / slots.shards.length; // a full bar; of the treasury it is all items
  const bars = [["treasury", slots.treasury, initial], ...slots.shards.map((left, number) => [`shard ${number}`, left, share])];
  if (slots.in_transit) bars.push(["in transit", slots.in_transit, share]);
  keyed($("slots"), bars, ([name]) => name, ({ firstChild: bar }, [name, left, full]) => {
    bar.firstChild.style.width = `${Math.min(100, (100 * left) / (full || 1))}%`;
    say(bar.lastChild, `${name} ${count(left)}`);
  });
}

export function showUnavailable(unavailable) {
  const lines = Object.entries(unavailable ?? {}).filter(([, why]) => why).map(([name, why]) => `${name} is unavailable: ${why}`);
  $("unavailable").hidden = !lines.length;
  say($("unavailable"), lines.join(" · "));
}

export function showRuns(runs) {
  const widest = Math.max(...runs.map((run) => Math.max(run.orders, (run.initial * 5) / 3)), 1);
  $("no-runs").hidden = runs.length > 0;
  $("main").dataset.runs = runs.length < MANY_RUNS ? "few" : "many";
  keyed($("runs"), runs, (run) => run.guard, (row, run) => {
    const tone = toneOf(run.verdict);
    row.className = run.current ? "current" : "";
    row.dataset.tone = tone;
    const [name, number, bar, verdict, time] = row.children;
    say(name.firstChild, run.guard);
    Object.assign(name.firstChild, { title: `Open the last run under ${run.guard}`, ariaCurrent: run.current ? "true" : null });
    const [sold, over, end] = bar.firstChild.children;
    sold.style.width = `${(100 * Math.min(run.orders, run.initial)) / widest}%`;
    over.style.left = end.style.left = `${(100 * run.initial) / widest}%`;
    over.style.width = `${(100 * Math.max(0, run.orders - run.initial)) / widest}%`;
    say(number, count(run.orders));
    setAll(verdict.firstChild.firstChild, { d: MARKS[tone] });
    say(verdict.lastChild, sentenceOf(run, run.over));
    say(time, duration(run.selling_ms));
  });
}

export function showQueue(view) {
  const { queue, instances } = view;
  const holder = queue?.holder;
  $("holder").dataset.held = Boolean(holder);
  const [who, token, meter, ttl] = $("holder").children;
  $("holder").className = `holder instance-${colour(instances, holder?.instance)}`;
  say(who, holder ? `${holder.instance ?? holder.owner} holds` : queue ? "The etcd lock is free" : "Not known");
  say(token, holder?.token == null ? "" : `token ${tokenText(holder.token)}`);
  const lease = holder?.ttl_s != null;
  meter.hidden = !lease;
  if (lease) {
    const left = Math.max(holder.ttl_s, 0) / holder.granted_s;
    Object.assign(meter, { ariaValueMax: holder.granted_s, ariaValueNow: Math.max(holder.ttl_s, 0) });
    meter.firstChild.style.width = `${100 * left}%`;
  }
  say(ttl, lease ? `lease: ${Math.max(holder.ttl_s, 0)} s of ${holder.granted_s} s left` : "");
  const shown = (queue?.waiters ?? []).slice(0, view.runs.length < MANY_RUNS ? WAITERS : WAITERS / 2);
  keyed($("waiters"), shown, (each) => each.token, (node, each) => {
    say(node.firstChild, each.instance ?? "another client");
    node.title = each.instance ?? each.owner;
    node.className = `instance-${colour(instances, each.instance)}`;
    say(node.lastChild, ` #${tokenText(each.token)}`);
  });
  const waiting = queue?.waiting ?? 0;
  say($("queue-note"), waiting ? `${count(waiting)} in line` : "");
  $("no-waiters").hidden = Boolean(!queue || holder || waiting);
  const inside = instances.reduce((sum, each) => sum + (each.queued ?? 0), 0);
  const further = waiting > shown.length && shown.length ? [`and ${count(waiting - shown.length)} more in etcd's queue`] : [];
  if (inside) further.push(`${count(inside)} waiting for a thread`);
  say($("more"), further.join("; "));
}

// The colour of an instance, of four; none for an instance that is not of this sale.
const colour = (instances, name) => instances.findIndex((each) => each.name === name) % 4;

// `canAct`: whether the board can freeze and kill them.
export function showInstances(view, canAct) {
  const sold = view.sale?.by_instance ?? {};
  const strangers = Object.keys(sold).filter((name) => view.instances.every((each) => each.name !== name));
  const rows = [...view.instances, ...recordedInstances(strangers)];
  const most = Math.max(...Object.values(sold), 1);
  $("instances").dataset.many = rows.length > MANY_INSTANCES && !canAct;
  keyed($("instances"), rows, (each) => each.url ?? each.name, (row, each, index) => {
    row.dataset.state = each.state;
    row.dataset.instance = row.title = each.name;
    const [name, bar, hand, actions] = row.children;
    const number = sold[each.name] ?? 0;
    say(name.children[1], each.name);
    name.firstChild.className = `key instance-${index % 4}`;
    say(name.children[2], STATES[each.state] ?? each.state);
    bar.firstChild.firstChild.style.width = `${(100 * number) / most}%`;
    bar.firstChild.firstChild.className = `fill instance-${index % 4}`;
    say(bar.firstChild.lastChild, count(number));
    say(hand, each.queued == null ? "" : `${each.busy} of ${each.threads} busy${each.queued ? `, ${count(each.queued)} wait` : ""}`);
    actions.hidden = !canAct || each.state === "recorded";
    const fits = { frozen: ["thaw", "kill"], down: ["start"] }[each.state] ?? ["freeze", "kill"];
    for (const button of actions.children) button.hidden = !fits.includes(button.textContent);
  });
}

let spoken = { kind: "", at: 0 };

// Screen readers speak when the verdict changes its kind, and otherwise not more often than people can follow.
export function speak(view) {
  const text = inWords(view);
  const { tone, word } = headline(view);
  const kind = `${tone} ${word.includes("so far")} ${view.guard}`;
  const now = performance.now();
  if ((kind === spoken.kind && now - spoken.at < LISTEN_MS) || $("live-region").textContent === text) return;
  spoken = { kind, at: now };
  say($("live-region"), text);
}
