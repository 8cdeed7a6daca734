// Slow motion: plays a record up to a thousand times slower beside the guard's own lines. It needs no server, so the
// report has it as well.

import { movesOf, stateAfter, tokenText } from "./moves.js";
import { speaker } from "./texts.js";
import { allow, make, pressable, setText } from "./code.js";
import { Stage } from "./stage.js";

const SPEEDS = [1, 10, 100, 1000];
const MOST_MARKS = 300;
const milliseconds = (ms) => `${ms.toFixed(3)} ms`;

export class Player {
  #at = 0; // time in the record
  #number = 0; // moves so far
  #playing = 0; // the frame that is asked for
  #parts = {};

  // `records`: those to choose from, each as its file has it, with a `title`.
  constructor(root, records) {
    this.root = root;
    this.t = speaker();
    this.records = records;
    this.#build();
    this.choose(0);
  }

  choose(index) {
    this.pause();
    const record = (this.record = this.records[index]);
    const { t } = this;
    this.film = { ...movesOf(record), stock: record.stock ?? record.initial };
    if (!this.film.source) this.film.source = { file: t("plainFile"), first_line: 0, text: t("plain").replaceAll("|", "\n") };
    const { moves, end } = this.film;
    this.firstLost = moves.findIndex(({ lost }) => lost > 0);
    this.firstRefused = moves.findIndex(({ refused }) => refused);
    allow(this.#parts.lost, this.firstLost >= 0);
    allow(this.#parts.refused, this.firstRefused >= 0);
    this.#parts.lost.title = this.firstLost < 0 ? t("noLost") : "";
    this.#parts.scrub.max = end;
    this.#drawMarks();
    this.goTo(Math.min(1, moves.length));
  }

  // After so many moves; "one event forward" is the next number.
  goTo(number) {
    this.#number = Math.min(Math.max(number, 0), this.film.moves.length);
    this.#at = this.film.moves[this.#number - 1]?.at ?? 0;
    this.#show();
  }

  play() {
    const { moves, end } = this.film;
    if (this.#number >= moves.length) this.goTo(0);
    let before = performance.now();
    const frame = (now) => {
      this.#at += (now - before) / this.#parts.speed.value;
      before = now;
      while (moves[this.#number]?.at <= this.#at) this.#number += 1;
      if (this.#at >= end) this.pause();
      else this.#playing = requestAnimationFrame(frame);
      this.#show();
    };
    this.#playing = requestAnimationFrame(frame);
    this.#show();
  }

  pause() {
    cancelAnimationFrame(this.#playing);
    this.#playing = 0;
    if (this.film) this.#show();
  }

  step(by) {
    this.pause();
    this.goTo(this.#number + by);
  }

  #seek(ms) {
    this.pause();
    const later = this.film.moves.findIndex(({ at }) => at > ms);
    this.#number = later < 0 ? this.film.moves.length : later;
    this.#at = ms;
    this.#show();
  }

  #show() {
    const { t, film } = this;
    const now = film.moves[this.#number - 1];
    const state = stateAfter(film, this.#number);
    if (now?.point === "left") state.inside.set(now.section, now); // it is seen as it leaves
    const waiting = (instance) => film.arrivals.filter((each) => each.instance === instance && each.from <= this.#at && this.#at < each.to).length;
    const markers = [...state.inside].map(([section, move]) => ({
      line: move.line,
      label: film.shortName(section.buyer),
      colour: film.instances.indexOf(section.instance),
      text: move.lost > 0 ? t("lostShort", move) : move.refused ? t("refusedShort") : this.#words(move),
      tone: toneOf(move),
      current: move === now,
    }));
    for (const [colour, instance] of film.instances.entries()) {
      const count = waiting(instance);
      const gate = count && film.moves.find(({ section, point }) => section.instance === instance && point === "locked");
      if (gate) markers.push({ line: gate.line, label: `+${count}`, colour, text: t("waiting", { count }), tone: "dim" });
    }
    const queue = film.instances.reduce((sum, name) => sum + waiting(name), 0);
    const changed = !now?.sold ? "" : now.lost > 0 ? "bad" : "good";
    this.stage.show({
      instances: film.instances,
      source: film.source,
      markers,
      figures: [
        [t("counter"), state.counter ?? "?", changed],
        [t("ledger"), state.ledger, changed && "good"],
        [t("lostSoFar"), state.lost, state.lost > 0 ? "bad" : ""],
        [t("queue"), film.arrivals.length ? queue : "–"], // the board keeps no answers
        [t("token"), state.token == null ? "–" : tokenText(state.token)],
      ],
    });
    const { sentence, play, scrub, clock, back, forward } = this.#parts;
    const clockText = t("clock", { at: milliseconds(this.#at), end: milliseconds(film.end), number: this.#number, count: film.moves.length });
    setText(clock, clockText);
    scrub.value = this.#at;
    scrub.setAttribute("aria-valuetext", clockText);
    setText(play, t(this.#playing ? "pause" : "play"));
    allow(back, this.#number > 0);
    allow(forward, this.#number < film.moves.length);
    sentence.ariaLive = this.#playing ? "off" : "polite"; // nobody can follow it while it plays
    sentence.dataset.tone = now ? toneOf(now) : "";
    const text = now ? this.#sentence(now) : film.moves.length ? t("keys") : t("empty");
    const verdict = this.#number >= film.moves.length && this.#verdict;
    setText(sentence, verdict ? t("ended", { sentence: text, verdict }) : text);
  }

  // What the run ended with, if its record says.
  get #verdict() {
    const { kind, oversold, undersold } = this.record.verdict ?? {};
    return kind ? this.t(`end_${kind}`, { n: oversold || undersold }) : "";
  }

  #sentence(move) {
    const { buyer, instance } = move.section;
    const sentence = this.t("at", { buyer, instance, what: this.#words(move) });
    return this.film.source.first_line ? this.t("onLine", { sentence, line: move.line }) : sentence;
  }

  #words({ section, point, value: known, was, lost, soFar, refused }) {
    const { t } = this;
    const value = known ?? (this.film.source.first_line ? null : "?"); // old records don't have all of them
    const { outcome, cause, token } = section;
    if (refused) return t("refused", { why: CAUSES.includes(cause) ? t(cause) : cause });
    if (point === "locked") return token == null ? t("locked") : t("lockedToken", { token: tokenText(token) });
    if (point === "read") return value == null ? t("decided") : t("read", { value });
    if (point === "write") return value == null ? t("script") : t("write", { value });
    if (point !== "wrote") return t(point);
    if (lost > 0) return t("lostUpdate", { value, was, count: lost, soFar });
    if (lost < 0) return t("broughtBack", { value, was, count: -lost, soFar });
    if (outcome === "sold" && section.stock_read != null) return t("wrote", { value });
    if (outcome === "sold") return t("sold", { value });
    if (outcome === "sold_out") return t("sold_out");
    return t(outcome == null ? "retry" : "in_doubt");
  }

  #build() {
    const { t, root } = this;
    const button = (name, press) => {
      const node = make("button", { type: "button", "data-do": name }, t(name === "refused" ? "refusedMark" : name));
      return (this.#parts[name] = pressable(node, press));
    };
    const speed = make("select", { "aria-label": t("speed") }, ...SPEEDS.map((by) => make("option", { value: by }, `1/${by}`)));
    speed.value = 1000;
    const which = make("select", { "aria-label": t("record") }, ...this.records.map(({ title }, index) => make("option", { value: index }, title)));
    which.hidden = this.records.length < 2;
    which.addEventListener("change", () => this.choose(Number(which.value)));
    const scrub = make("input", { type: "range", min: 0, step: "any", "aria-label": t("scrub") });
    scrub.addEventListener("input", () => this.#seek(Number(scrub.value)));
    const marks = make("span", { class: "scrub-marks", "aria-hidden": "true" });
    const stage = make("div");
    Object.assign(this.#parts, { speed, which, scrub, marks, clock: make("output"), sentence: make("p", { class: "sentence", role: "status" }) });
    const tools = make(
      "div",
      { class: "tools" },
      which,
      button("back", () => this.step(-1)),
      button("play", () => (this.#playing ? this.pause() : this.play())),
      button("forward", () => this.step(1)),
      speed,
      button("lost", () => this.#jump(this.firstLost)),
      button("refused", () => this.#jump(this.firstRefused)),
      this.#parts.clock,
    );
    for (const [name, sign] of [["back", "←"], ["forward", "→"]]) {
      this.#parts[name].ariaLabel = this.#parts[name].title = t(name);
      this.#parts[name].textContent = sign;
    }
    this.stage = new Stage(stage, t);
    root.classList.add("slow");
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", `${t("title")}. ${t("keys")}`);
    root.replaceChildren(tools, make("div", { class: "scrub" }, marks, scrub), this.#parts.sentence, stage);
    root.addEventListener("keydown", (event) => this.#press(event));
  }

  // The next event at that instance.
  #nextAt(instance) {
    const later = this.film.moves.findIndex(({ section }, index) => index >= this.#number && section.instance === instance);
    if (later >= 0) this.#jump(later);
  }

  #jump(index) {
    this.pause();
    this.goTo(index + 1);
  }

  #press(event) {
    const { target, key } = event;
    if (event.altKey || event.ctrlKey || event.metaKey || target.matches("select")) return;
    if (key === " " && target.matches("button")) return; // which presses it
    const next = (index) => () => this.#nextAt(this.film.instances[index]);
    const act = {
      a: next(0),
      b: next(1),
      c: next(2),
      " ": () => (this.#playing ? this.pause() : this.play()),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
    }[key.length > 1 ? key : key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }

  #drawMarks() {
    const { moves, end } = this.film;
    const found = moves.filter(({ lost, refused }) => lost > 0 || refused);
    const every = Math.ceil(found.length / MOST_MARKS);
    const shown = found.filter(({ refused }, index) => refused || index % every === 0);
    this.#parts.marks.replaceChildren(
      ...shown.map((move) => {
        const mark = make("i", { class: toneOf(move) });
        mark.style.left = `${(100 * move.at) / (end || 1)}%`;
        return mark;
      }),
    );
  }
}

// Over the page, until it is closed.
export function openPlayer(record) {
  const t = speaker();
  const [close, root] = [make("button", { type: "button" }, t("close")), make("div")];
  const header = make("header", {}, make("h2", {}, t("title"), " ", make("small", {}, record.title)), close);
  const dialog = make("dialog", { class: "slow-dialog", "aria-label": t("title") }, header, root);
  document.body.append(dialog);
  const player = new Player(root, [record]);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    player.pause();
    dialog.remove();
  });
  dialog.showModal();
  root.focus();
}

const CAUSES = ["fenced_off", "hold_lost", "session_lost", "sale_reset"];

function toneOf({ lost, refused, sold }) {
  if (lost > 0) return "bad";
  if (refused) return "warn";
  return sold ? "good" : "";
}
