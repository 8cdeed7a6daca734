// The controls. The board refuses requests of any other page.

import { $, duration, say } from "./dom.js";
import { language, sentences, text, TEXTS } from "./texts.js";

export const BUSY = ["spawning", "running", "stopping", "cleanup"]; // Locust's words
const THINK_MS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 700, 1000, 2000, 5000]; // the notches of the dial
const SAID_MS = 8000;

export class Controls {
  #setup = null;
  #saying = 0;

  // `expect(arrival)`: shows a rush at once that was asked for, or none.
  constructor({ expect }) {
    this.expect = expect;
    for (const id of ["rush-form", "reset-form"]) $(id).addEventListener("submit", (event) => this.#submit(event));
    $("token-form").addEventListener("submit", (event) => event.preventDefault());
    $("rush-form").addEventListener("input", () => this.#foresee());
    $("instances").addEventListener("click", ({ target }) => {
      const { action } = target.dataset;
      if (action) this.#send("instance", { action, instance: target.closest("tr").dataset.instance });
    });
  }

  setUp(setup) {
    this.#setup = setup;
    const options = setup.guards.map(({ name, description }) => Object.assign(new Option(name), { title: language === "en" ? description : "" }));
    $("guard").replaceChildren(...options);
    $("think").max = THINK_MS.length - 1;
    for (const name of ["rush-form", "reset-form"]) $(name).elements.stock.value = setup.stock;
    $("token-form").hidden = !setup.token_needed;
    this.#foresee();
  }

  // How long the sales will take with this think time.
  #foresee() {
    const { stock, buyers } = $("rush-form").elements;
    const [hold, n, patience] = [THINK_MS[$("think").value], Math.min(stock.value, buyers.value), this.#setup.lock_timeout_s];
    const fit = Math.floor((patience * 1000) / hold);
    say($("think-time"), duration(hold));
    const parts = hold > 0 ? [text("foreseen", { n, time: duration(n * hold) })] : [];
    if (fit < n) parts.push(text("foreseen_late", { patience, n: fit }));
    say($("foreseen"), sentences(parts));
    $("foreseen").dataset.late = fit < n;
  }

  // Whether this board can freeze and kill instances.
  get canAct() {
    return this.#setup?.can_freeze;
  }

  show({ live, locust, arrival }) {
    const state = locust?.state;
    const rush = BUSY.includes(state) || arrival ? text("busy.rush") : state === "slow" ? text("busy.slow") : "";
    const why = state === "away" ? text("busy.away") : rush;
    $("no-locust").hidden = !live || state !== "away";
    offer("start", live ? why : text("busy.recorded"), !locust);
    offer("reset", rush);
    if (live && locust?.notice && !rush && this.notice !== locust.notice) this.tell(locust.notice, false);
    this.notice = locust?.notice;
  }

  async #submit(event) {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    for (const name of ["stock", "buyers"]) if (name in fields) fields[name] = Number(fields[name]);
    if (event.target.id === "reset-form") return this.#send("reset", fields);
    const { guard, buyers, stock } = fields;
    this.expect({ guard, buyers, stock, here: 0 });
    const done = await this.#send("rush", { guard, buyers, stock, hold_ms: THINK_MS[$("think").value] });
    if (!done) this.expect(null);
  }

  // Whether it was done.
  async #send(control, body) {
    const done = await this.post(`/control/${control}`, body);
    if (done && control === "rush") this.tell("");
    else if (done) this.tell(text(`done.${body.action ?? control}`, { name: body.instance, n: body.stock }));
    return done;
  }

  // Whether the board did it; or else says why not.
  async post(path, body) {
    const headers = { "Content-Type": "application/json" };
    if ($("token").value) headers.Authorization = `Bearer ${$("token").value}`;
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) })
      .then((response) => response.json())
      .catch(() => ({ type: "no_board", detail: text("problem.no_board") }));
    const key = `problem.${answer.type?.split(":").at(-1)}`;
    const done = "done" in answer;
    if (!done) this.tell(key in TEXTS.en ? text(key) : answer.detail, false);
    return done;
  }

  // Says it for a while, a failure until the next one.
  tell(message, ok = true) {
    clearTimeout(this.#saying);
    say($("said"), message);
    $("said").dataset.ok = ok;
    if (ok) this.#saying = setTimeout(() => say($("said"), ""), SAID_MS);
  }
}

// A button can be pressed unless there is a reason against it.
const offer = (id, reason, off = false) => Object.assign($(id), { disabled: off || Boolean(reason), title: reason });
