// The controls. The board refuses requests of any other page.

import { $, duration, plural, say } from "./dom.js";

const BUSY = ["spawning", "running", "stopping", "cleanup"]; // Locust's words

export class Controls {
  #setup = null;

  constructor() {
    for (const form of document.querySelectorAll("#controls form")) form.addEventListener("submit", (event) => this.#submit(event));
    $("rush-form").addEventListener("input", () => this.#foresee());
    $("instances").addEventListener("click", ({ target }) => {
      if (target.matches("button")) this.#send("instance", { action: target.textContent, instance: target.closest("tr").dataset.instance });
    });
  }

  setUp(setup) {
    this.#setup = setup;
    const each = setup.guards.map(({ name, description }) => Object.assign(new Option(name), { title: description }));
    const all = new Option("all, one after the other", each.map((option) => option.value));
    $("rush-form").elements.guards.replaceChildren(new Option("none, and then etcd", "none,etcd"), ...each, all);
    for (const name of ["rush-form", "reset-form"]) $(name).elements.stock.value = setup.stock;
    $("token-form").hidden = !setup.token_needed;
    this.#foresee();
  }

  // How long the sales will take with this think time.
  #foresee() {
    const { hold_ms, stock, buyers } = $("rush-form").elements;
    const [hold, sales, patience] = [hold_ms.value, Math.min(stock.value, buyers.value), this.#setup.lock_timeout_s];
    const fit = Math.floor((patience * 1000) / hold);
    say(hold_ms.nextElementSibling, `${hold} ms`);
    const late = `A buyer waits at most ${patience} s: after about ${plural(fit, "sale")} the others give up, and the sale is undersold.`;
    say($("foreseen"), hold > 0 ? `Under a lock, ${plural(sales, "sale")} in a row take at least ${duration(sales * hold)}. ${fit < sales ? late : ""}` : "");
    $("foreseen").dataset.late = fit < sales;
  }

  // Whether this board can freeze and kill instances.
  get canAct() {
    return this.#setup?.can_freeze;
  }

  show({ live, locust }) {
    const rush = BUSY.includes(locust) ? "A rush is running: wait for its end, or stop it in Locust's page." : "";
    const missing = locust == null ? "Locust is not running." : rush;
    $("no-locust").hidden = !live || locust != null;
    offer("start", live ? missing : "This is a recorded run: go back to live first.");
    offer("reset", rush);
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
    if ($("token").value) headers.Authorization = `Bearer ${$("token").value}`;
    say($("said"), "…");
    const answer = await fetch(`/control/${control}`, { method: "POST", headers, body: JSON.stringify(body) })
      .then((response) => response.json())
      .catch(() => ({ detail: "The board does not answer." }));
    say($("said"), answer.done ?? answer.detail);
    $("said").dataset.ok = "done" in answer;
    if (!answer.done && $("controls").hidden) $("toggle-controls").click();
  }
}

// A button can be pressed unless there is a reason against it.
const offer = (id, reason) => Object.assign($(id), { disabled: Boolean(reason), title: reason });
