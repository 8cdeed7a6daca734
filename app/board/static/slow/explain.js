// The first rush explains itself: for ten seconds, two of its purchases with names. Without a lock how the first update
// was lost, under etcd how one waited for the other.

import { make } from "./code.js";
import { movesOf, stateAfter, tokenText } from "./moves.js";
import { Stage } from "./stage.js";
import { speaker } from "./texts.js";

const SHOWN_MS = 10_000;
const NAMES = ["Ada", "Bob", "Carl"];

// { title, who, sentences, frames: [{ said, number, lines }] } of a record, or null if it has neither. In each frame so
// many sentences are said, and so many moves are over; `lines` are the moves where the two stand.
export function storyOf(record, t) {
  const film = { ...movesOf(record), stock: record.stock };
  const story = lostUpdate(film, t) ?? inTurn(film, t);
  const who = (section, index) => t("isBuyer", { name: NAMES[index], buyer: section.buyer, instance: section.instance });
  return story && { ...story, film, who: story.people.map(who).join(" · ") };
}

// Two that read the same, of whom the second wrote over the first: the first two that lost one sale. Where each lost
// more, others had written in between, of whom the last is named.
function lostUpdate(film, t) {
  const losses = film.moves.filter(({ lost, section }) => lost > 0 && section.stock_read != null && section.token == null);
  const over = losses.find(({ lost }) => lost === 1) ?? losses[0];
  if (!over) return null;
  const value = over.section.stock_read;
  const before = film.moves.slice(0, film.moves.indexOf(over)).filter(({ sold }) => sold);
  const first = before.findLast(({ section }) => section.stock_read === value);
  if (!first) return null;
  const between = over.lost === 1 ? [] : before.slice(-1);
  const reads = [first, over].map(({ section }) => film.moves.find((move) => move.section === section && move.point === "read"));
  const two = reads.sort((a, b) => a.at - b.at).map(({ section }) => section);
  const both = between.length ? "storyBetween" : over.soFar > 1 ? "storyBothMore" : "storyBoth";
  const said = { value: value - 1, low: over.was, count: over.lost, name: NAMES[2] };
  const sentences = [...two.map((_, index) => t("storyRead", { name: NAMES[index], value })), t(both, said)];
  const last = [first, over].sort((a, b) => two.indexOf(a.section) - two.indexOf(b.section));
  const frames = [
    { said: 1, until: reads[0], lines: [reads[0]] },
    { said: 2, until: reads[1], lines: reads },
    { said: 3, until: over, lines: last },
  ];
  return { kind: "lost", title: t("storyLost"), people: [...two, ...between.map(({ section }) => section)], sentences, frames };
}

// The first two holders of the lock, the second of whom entered after the first had left.
function inTurn(film, t) {
  const at = (section, point) => film.moves.find((move) => move.section === section && move.point === point);
  const entered = film.moves.filter(({ point, section }) => point === "locked" && typeof section.token === "number");
  const two = entered.slice(0, 2).map(({ section }) => section);
  const wrote = two.map((section) => at(section, "wrote"));
  if (two.length < 2 || !wrote.every((move) => move?.sold && move.section.stock_read != null) || two[1].entered_ms < two[0].left_ms) return null;
  const [ada, bob] = two.map((section) => ({ token: tokenText(section.token), value: section.stock_read, left: section.stock_read - 1 }));
  const sentences = [t("storyHolds", ada), t("storyWrote", ada), t("storyNext", bob), t("storyTurns")];
  const waits = { ...at(two[1], "locked"), waits: true };
  const frames = [
    { said: 1, until: at(two[0], "locked"), lines: [at(two[0], "locked"), waits] },
    { said: 2, until: wrote[0], lines: [wrote[0], waits] },
    { said: 4, until: wrote[1], lines: [null, wrote[1]] },
  ];
  return { kind: "queue", title: t("storyQueue"), people: two, sentences, frames };
}

// Shows the story of a record over the page, until it is over or a key is pressed; whether there is one.
export function explain(record) {
  const t = speaker();
  const story = storyOf(record, t);
  if (!story) return false;
  const { film, frames, sentences } = story;
  const lines = sentences.map((sentence) => make("p", { class: "told" }, sentence));
  const stage = new Stage(make("div"), t);
  const header = make("header", {}, make("h2", {}, story.title), make("small", {}, t("anyKey")));
  const dialog = make("dialog", { class: "slow-dialog story", "aria-label": story.title }, header, make("div", { role: "status" }, ...lines), stage.root, make("small", {}, story.who));

  function show({ said, until, lines: moves }) {
    for (const [index, line] of lines.entries()) line.classList.toggle("unseen-yet", index >= said);
    const state = stateAfter(film, film.moves.indexOf(until) + 1);
    stage.show({
      source: film.source,
      instances: film.instances,
      markers: moves.flatMap((move, index) => (move ? [markerOf(move, index)] : [])),
      figures: [
        [t("counter"), state.counter ?? "?", state.lost > 0 ? "bad" : ""],
        [t("ledger"), state.ledger],
        [t("lostSoFar"), state.lost, state.lost > 0 ? "bad" : ""],
      ],
    });
  }

  function markerOf({ section, line, point, value, waits }, index) {
    const text = waits ? t("storyWaits") : t(point === "read" ? "read" : point === "locked" ? "locked" : "wroteShort", { value });
    return { line, label: NAMES[index], colour: film.instances.indexOf(section.instance), text, tone: point === "wrote" && story.kind === "lost" ? "bad" : "", current: !waits };
  }

  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const shown = still ? frames.slice(-1) : frames;
  const timers = shown.map((frame, index) => setTimeout(() => show(frame), (index * 0.75 * SHOWN_MS) / frames.length));
  timers.push(setTimeout(() => dialog.close(), SHOWN_MS));
  show(shown[0]);
  dialog.addEventListener("keydown", (event) => !["Shift", "Control", "Alt", "Meta"].includes(event.key) && dialog.close());
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    for (const timer of timers) clearTimeout(timer);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  return true;
}
