// The panels of text: verdict, runs, queue and instances.

import { $, keyed, say, setAll, tokenText } from "./dom.js";
import { recordedInstances } from "./record.js";
import { count, text } from "./texts.js";
import { headline, inWords, MARKS, sentenceOf, shortOf, toneOf } from "./verdict.js";

const SHOWN_STATES = ["frozen", "down", "silent"];
const LISTEN_MS = 4000;
const WAITERS = 4;
const MANY_INSTANCES = 4; // above which several stand in a row
const FEW_RUNS = 5; // up to which rows are large
const LONG_WORD = 16; // characters of a headline

export function showVerdict(view) {
  const { tone, word, lead } = headline(view);
  $("verdict").dataset.tone = tone;
  setAll($("mark"), { d: MARKS[tone] });
  say($("word"), word);
  $("word").dataset.long = word.length > LONG_WORD;
  say($("lead"), lead);
  document.title = `${word} · ${text("title")}`;
  const { sale, arrival } = view;
  const figures = sale && !arrival
    ? [
        ["sold", sale.orders, sale.orders > sale.initial],
        ["counter", sale.stock, false],
        ["oversold", Math.max(0, sale.orders - sale.initial), true],
        ["lost", sale.lost_updates, true],
      ]
    : [];
  keyed($("figures"), figures, ([key]) => key, (node, [key, number, bad]) => {
    say(node.firstChild, text(`figure.${key}`));
    say(node.lastChild, count(number));
    node.className = bad && number > 0 ? "bad" : "";
  });
}

// In the place of the sentence below the verdict, so that nothing moves.
export function showUnavailable(unavailable) {
  const lines = Object.entries(unavailable ?? {}).filter(([, why]) => why).map(([name, why]) => text("unavailable", { name, why }));
  $("unavailable").hidden = !lines.length;
  $("lead").hidden = lines.length > 0;
  say($("unavailable"), lines.join(" · "));
}

export function showRuns(runs) {
  const widest = Math.max(...runs.map((run) => Math.max(run.orders, (run.initial * 5) / 3)), 1);
  $("no-runs").hidden = runs.length > 0;
  $("main").dataset.runs = runs.length > FEW_RUNS ? "many" : "few";
  keyed($("runs"), runs, (run) => run.guard, (row, run) => {
    const tone = toneOf(run);
    row.className = run.current ? "current" : "";
    row.dataset.tone = tone;
    const [name, bar, verdict] = row.children;
    say(name.firstChild, run.guard);
    Object.assign(name.firstChild, { title: text("runs.open", { guard: run.guard }), ariaCurrent: run.current ? "true" : null });
    const [sold, over, end, number] = bar.firstChild.children;
    sold.style.width = `${(100 * Math.min(run.orders, run.initial)) / widest}%`;
    over.style.left = end.style.left = `${(100 * run.initial) / widest}%`;
    over.style.width = `${(100 * Math.max(0, run.orders - run.initial)) / widest}%`;
    say(number, count(run.orders));
    setAll(verdict.firstChild.firstChild, { d: MARKS[tone] });
    say(verdict.lastChild, shortOf(run, run.over));
    verdict.title = sentenceOf(run);
  });
}

export function showQueue(view) {
  const { queue, instances } = view;
  const holder = queue?.holder;
  const frozen = instances.some(({ name, state }) => name === holder?.instance && state === "frozen");
  $("holder").dataset.held = Boolean(holder);
  const [who, token, meter, ttl] = $("holder").children;
  $("holder").className = `holder instance-${colour(instances, holder?.instance)}`;
  const guard = view.arrival?.guard ?? view.guard;
  const noLock = !holder && guard && guard !== "mixed" && !guard.includes("etcd"); // those with it in their name lock there
  const free = noLock ? (guard === "none" ? "queue.no_lock" : "queue.no_etcd_lock") : queue ? "queue.free" : "queue.unknown";
  say(who, holder ? text("queue.holds", { name: holder.instance ?? holder.owner }) : text(free));
  $("holder").dataset.frozen = frozen;
  const about = [frozen && text("state.frozen"), holder?.token != null && text("queue.token", { token: tokenText(holder.token) })];
  say(token, about.filter(Boolean).join(" · "));
  const lease = holder?.ttl_s != null;
  const left = lease ? Math.max(holder.ttl_s, 0) : 0;
  meter.style.visibility = lease ? "visible" : "hidden";
  if (lease) Object.assign(meter, { ariaValueMax: holder.granted_s, ariaValueNow: left });
  meter.firstChild.style.width = lease ? `${(100 * left) / holder.granted_s}%` : "0";
  say(ttl, lease ? text("queue.lease_left", { left, granted: holder.granted_s }) : "");
  const shown = (queue?.waiters ?? []).slice(0, WAITERS);
  keyed($("waiters"), shown, (each) => each.token, (node, each) => {
    say(node.firstChild, each.instance ?? text("queue.another"));
    node.title = each.instance ?? each.owner;
    node.className = `instance-${colour(instances, each.instance)}`;
    say(node.lastChild, `#${tokenText(each.token)}`);
  });
  const waiting = queue?.waiting ?? 0;
  say($("queue-note"), waiting ? text("queue.note", { n: waiting }) : "");
  $("no-waiters").hidden = Boolean(!queue || holder || waiting || noLock);
  const outside = instances.reduce((sum, each) => sum + (each.queued ?? 0), 0);
  const further = waiting > shown.length && shown.length ? [text("queue.more", { n: waiting - shown.length })] : [];
  if (outside) further.push(text("queue.outside", { n: outside }));
  say($("more"), further.join(" · "));
}

// The colour of an instance, of four; none for an instance that is not of this sale.
const colour = (instances, name) => instances.findIndex((each) => each.name === name) % 4;

// `canAct`: whether the board can freeze and kill them.
export function showInstances(view, canAct) {
  const sold = view.sale?.by_instance ?? {};
  const gone = Object.keys(sold).filter((name) => view.instances.every((each) => each.name !== name));
  const rows = [...view.instances, ...recordedInstances(gone)];
  const most = Math.max(...Object.values(sold), 1);
  $("instances").dataset.many = rows.length > MANY_INSTANCES && !canAct;
  $("instances").dataset.acts = Boolean(canAct);
  keyed($("instances"), rows, (each) => each.url ?? each.name, (row, each, index) => {
    row.dataset.state = each.state;
    row.dataset.instance = row.title = each.name;
    const [name, bar, actions, hand] = row.children;
    const number = sold[each.name] ?? 0;
    say(name.lastChild, each.name);
    name.firstChild.className = `key instance-${index % 4}`;
    bar.firstChild.firstChild.style.width = `${(100 * number) / most}%`;
    bar.firstChild.firstChild.className = `fill instance-${index % 4}`;
    say(bar.firstChild.lastChild, count(number));
    say(hand.firstChild, SHOWN_STATES.includes(each.state) ? text(`state.${each.state}`) : "");
    say(hand.lastChild, handText(each, view.details));
    // Two buttons, each with its place and size, whatever the instance does.
    const [pause, life] = actions.children;
    offer(pause, each.state === "frozen" ? "thaw" : "freeze", each.state === "down");
    offer(life, each.state === "down" ? "start" : "kill");
  });
}

function offer(button, action, off = false) {
  button.dataset.action = action;
  button.disabled = off;
  say(button, text(`action.${action}`));
}

// What its threads do, of which only those who look for details hear.
function handText({ queued, in_hand, threads }, details) {
  if (!details || queued == null) return "";
  const parts = [text("hand.in_hand", { in_hand, threads })];
  if (queued) parts.push(text("hand.outside", { n: queued }));
  return parts.join(" · ");
}

let spoken = { kind: "", at: 0 };

// Screen readers speak when the verdict changes its kind, and otherwise not more often than people can follow.
export function speak(view) {
  const told = inWords(view);
  const { tone } = headline(view);
  const kind = [tone, Boolean(view.over), Boolean(view.arrival), view.guard].join();
  const now = performance.now();
  if ((kind === spoken.kind && now - spoken.at < LISTEN_MS) || $("live-region").textContent === told) return;
  spoken = { kind, at: now };
  say($("live-region"), told);
}
