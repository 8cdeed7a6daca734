// Where the page's state comes from: recordings, so that it needs no server. Every move that is offered was made on real
// servers, and what is shown was seen there.
//
// A recording is a file of `python -m loadtest schedules --record FOLDER`. The page has it as
// <script type="application/json" id="recording-GUARD">, before its own scripts; it may have several. The element "lab-texts"
// may have the Chinese for what the recordings say in English.

const BUYERS = "ABCD";
const INSTANCES = 2;
const LEASE_S = 10; // as it is shown; of a recorded pause nothing is kept but its end
const PAUSE_MS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 1600; // in which the page lets it run out
const PREFIX = "recording-";
const FAULTS = { pause: "freeze", kill: "kill", "kill-sent": "kill-sent", lost: "lost" };

// "A-kill-sent" is ["A", "kill-sent"], and "A" is ["A"].
export const partsOf = (move) => move.split(/-(.*)/);

// Where a purchase is made: one that was killed is followed by another instance of the same place.
export const instanceOf = (buyer) => `shop-${(BUYERS.indexOf(buyer) % INSTANCES) + 1}`;

// The recordings of this page, by their guards: functions, for each is read when it is asked for.
export function recordings() {
  const found = new Map();
  for (const node of document.querySelectorAll(`script[type="application/json"][id^="${PREFIX}"]`)) {
    let file;
    found.set(node.id.slice(PREFIX.length), () => (file ??= JSON.parse(node.textContent)));
  }
  return found;
}

// The purchases in a state of a packed graph, see labs/steps/schedules/results.py.
export function purchasesIn({ purchase: columns }, { rows, states }, number) {
  const places = states[number].slice(0, -4);
  return places.map((place, index) => ({ buyer: BUYERS[index], ...Object.fromEntries(columns.map((name, column) => [name, rows[place][column]])) }));
}

// A source, see live.js. Besides what the board tells, a state has `offers`: the kinds of moves that were recorded
// anywhere, and whether `undo` can do anything; and a purchase has `moves`: those that were recorded in this state.
export class Recorded {
  #files;
  #file;
  #way = []; // the states that were passed
  #pause = { until: 0 }; // the pause that is shown
  #offers = [];

  constructor(files) {
    this.#files = files;
  }

  // `levels`: guards of the shop that the page knows; all others are mistakes.
  async setup(levels) {
    const others = [...this.#files].filter(([name]) => !levels.includes(name));
    const mistakes = others.map(([name, file]) => ({ name, description: file().description, found: file().found }));
    return { guards: [], mistakes, lab_texts: JSON.parse(document.getElementById("lab-texts")?.textContent ?? "{}"), token_needed: false };
  }

  async look() {
    if (!this.#file) return { instances: [], sale: {}, queue: [] };
    const left = this.#pause.until - performance.now();
    return left > 0 ? this.#leaseRunsOut(Math.ceil((LEASE_S * left) / PAUSE_MS)) : this.#state();
  }

  async begin(guard, grain) {
    const file = this.#files.get(guard)?.();
    if (file?.grain !== grain) throw Object.assign(new Error(guard), { status: "unrecorded" });
    this.#file = file;
    const names = new Set(this.#graph.moves.flatMap((moves) => Object.keys(moves)));
    this.#offers = [...new Set([...names].map((name) => FAULTS[partsOf(name)[1]] ?? "step"))];
    return this.#goTo([0]);
  }

  step = ({ buyer }) => this.#move(buyer);
  thaw = ({ buyer }) => this.#move(buyer); // it goes on at once, as it did when it was recorded
  kill = ({ buyer }) => this.#move(`${buyer}-kill`);
  "kill-sent" = ({ buyer }) => this.#move(`${buyer}-kill-sent`);
  lost = ({ buyer }) => this.#move(`${buyer}-lost`);
  undo = () => this.#goTo(this.#way.slice(0, -1));

  freeze({ buyer }) {
    this.#move(`${buyer}-pause`);
    this.#pause = { until: performance.now() + PAUSE_MS, buyer };
    return this.look();
  }

  get #graph() {
    return this.#file.graphs[0];
  }

  #move(name) {
    return this.#goTo([...this.#way, this.#graph.moves[this.#way.at(-1)][name]]);
  }

  #goTo(way) {
    this.#way = way;
    this.#pause = { until: 0 };
    return this.look();
  }

  #state(number = this.#way.at(-1)) {
    const { guard, grain, items, source } = this.#file;
    const [stock, orders, fence, queue] = this.#graph.states[number].slice(-4);
    const names = Object.keys(this.#graph.moves[number]);
    const purchases = purchasesIn(this.#file, this.#graph, number).map((each) => {
      const mine = names.map(partsOf).filter(([buyer]) => buyer === each.buyer);
      return { ...each, id: each.buyer, guard, grain, source, moves: mine.map(([, fault]) => FAULTS[fault] ?? (each.frozen ? "thaw" : "step")) };
    });
    const instances = [...BUYERS].slice(0, INSTANCES).map(instanceOf).map((name) => {
      const here = purchases.filter(({ buyer }) => instanceOf(buyer) === name);
      return { name, state: here.some(({ frozen }) => frozen) ? "frozen" : "running", purchases: here };
    });
    return {
      instances,
      sale: { items, stock, orders, fence },
      queue: queue.map(([buyer, token]) => ({ owner: `(thread steps-${buyer})`, token })),
      offers: this.#offers,
      ending: this.#graph.ends[number]?.[2],
      undo: this.#way.length > 1,
    };
  }

  // As before the pause, but for the time that is left to the lease.
  #leaseRunsOut(ttl_s) {
    const state = this.#state(this.#way.at(-2));
    const { buyer } = this.#pause;
    for (const instance of state.instances) {
      if (instance.purchases.some((each) => each.buyer === buyer)) instance.state = "frozen";
      for (const purchase of instance.purchases) purchase.moves = [];
    }
    for (const each of state.queue) if (each.owner.includes(`-${buyer})`)) each.ttl_s = ttl_s;
    return state;
  }
}
