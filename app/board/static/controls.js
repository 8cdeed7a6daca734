// What can be done from here. The board refuses whatever does not come from its own page.

import { $, el, say } from "./dom.js";

const BUSY = ["spawning", "running", "stopping", "cleanup"]; // Locust's words

export class Controls {
  #setup = null;

  constructor() {
    this.token = "";
    $("token").addEventListener("input", (event) => (this.token = event.target.value));
    for (const form of document.querySelectorAll("#controls form")) form.addEventListener("submit", (event) => this.#submit(event));
    const dial = $("rush-form").elements.hold_ms;
    dial.addEventListener("input", () => say(dial.nextElementSibling, `${dial.value} ms`));
  }

  setUp(setup) {
    this.#setup = setup;
    const options = [el("option", { value: "none,etcd", textContent: "none, and then etcd" })];
    options.push(...setup.guards.map((guard) => el("option", { value: guard.name, textContent: guard.name, title: guard.description })));
    options.push(el("option", { value: setup.guards.map((guard) => guard.name).join(), textContent: "all, one after the other" }));
    $("rush-form").elements.guards.replaceChildren(...options);
    for (const name of ["rush-form", "reset-form"]) $(name).elements.stock.value = setup.stock;
    $("token-form").hidden = !setup.token_needed;
    say($("locust-command"), setup.locust_command);
  }

  // What can be done to an instance, if anything can.
  get act() {
    return this.#setup?.can_freeze ? (action, instance) => this.#send("instance", { action, instance }) : null;
  }

  show({ locust }) {
    const rush = BUSY.includes(locust) ? "A rush is running: wait for its end, or stop it in Locust's page." : "";
    $("no-locust").hidden = locust != null;
    offer("rush-form", locust == null ? "Locust is not running." : rush);
    offer("reset-form", rush);
  }

  async #submit(event) {
    event.preventDefault();
    if (event.target.id === "token-form") return;
    const fields = Object.fromEntries(new FormData(event.target));
    for (const name of ["stock", "buyers", "hold_ms"]) if (name in fields) fields[name] = Number(fields[name]);
    await this.#send(event.target.id === "rush-form" ? "rush" : "reset", fields);
  }

  async #send(control, body) {
    const headers = { "Content-Type": "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    say($("said"), "…");
    try {
      const response = await fetch(`/control/${control}`, { method: "POST", headers, body: JSON.stringify(body) });
      const answer = await response.json();
      say($("said"), answer.done ?? answer.detail);
      $("said").dataset.ok = response.ok;
    } catch {
      say($("said"), "The board does not answer.");
      $("said").dataset.ok = false;
    }
  }
}

// The button of a form, unless there is a reason against it.
function offer(form, reason) {
  const button = $(form).querySelector("button");
  button.disabled = Boolean(reason);
  button.title = reason;
}
