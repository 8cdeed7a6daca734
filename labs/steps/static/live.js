// Where the page's state comes from: the instances, by the requests of the board.
//
// A source has `setup`, then `begin`, `step`, `freeze`, `thaw` and `look`, each of which promises a state,
// { instances: [{ name, state, purchases }], sale: { items, stock, orders, fence }, queue }; and, if it can, `add`, `kill`,
// `kill-sent`, `lost` and `undo`. See labs/steps/scheduler.py for the state, and recorded.js for the other source.

export class Live {
  #token;

  // `token()`: the administrator's.
  constructor(token) {
    this.#token = token;
  }

  // { guards, mistakes, lab_texts, can_freeze, token_needed }: guards of the shop, and the mistakes, as { name, description, found };
  // the Chinese by the English.
  setup = async () => ({ ...(await this.#ask("/setup")), ...(await this.#ask("/steps/mistakes")) });
  look = () => this.#ask("/steps/state");
  begin = (guard, grain) => this.#ask("/steps/begin", { guard, grain });
  add = ({ guard, grain }, buyer) => this.#ask("/steps/add", { guard, grain, buyer });
  step = ({ id }) => this.#ask("/steps/step", { id });
  freeze = (purchase) => this.#control(purchase, "freeze");
  thaw = (purchase) => this.#control(purchase, "thaw");

  async #control({ instance }, action) {
    await this.#ask("/control/instance", { instance: instance.name, action });
    return this.look();
  }

  async #ask(path, body) {
    const headers = { "Content-Type": "application/json" };
    if (this.#token()) headers.Authorization = `Bearer ${this.#token()}`;
    const response = await fetch(path, body && { method: "POST", headers, body: JSON.stringify(body) }).catch(({ message }) => {
      throw Object.assign(new Error(message), { status: "silent" });
    });
    const answer = await response.json();
    if (!response.ok) throw Object.assign(new Error(answer.detail), { status: response.status });
    return answer;
  }
}
