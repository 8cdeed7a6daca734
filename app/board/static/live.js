// The board's stream of events, kept as one model. Reconnects by itself: a browser would not after an answer such as 503,
// nor if the connection is only silent.

const RETRY_MS = 1000;
const SILENT_MS = 7000; // the board sends at least every five seconds

export class Live {
  #source = null;
  #timer = 0; // ends the silence of a connection, or begins the next one

  // `changed(model)` after every event; `connection(state)` with "live", "waiting" or "paused".
  constructor({ changed, connection }) {
    this.model = null;
    this.changed = changed;
    this.connection = connection;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.start()));
  }

  start() {
    if (this.#source) return;
    this.#source = new EventSource("/events");
    this.#source.addEventListener("hello", (event) => this.#take(JSON.parse(event.data)));
    this.#source.addEventListener("sample", (event) => this.#take(merge(this.model, JSON.parse(event.data))));
    this.#source.onerror = () => this.#lost();
    this.#soon(SILENT_MS, () => this.#lost());
  }

  // A hidden page costs the sale nothing.
  pause() {
    this.#end();
    this.connection("paused");
  }

  #take(model) {
    this.model = model;
    this.#soon(SILENT_MS, () => this.#lost());
    this.connection("live");
    this.changed(model);
  }

  #lost() {
    this.#end();
    this.connection("waiting");
    this.#soon(RETRY_MS, () => this.start());
  }

  #soon(ms, call) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(call, ms);
  }

  #end() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }
}

// Of one number the newer section, in the old place.
function merge(model, { sections, ...state }) {
  if (!sections.length) return { ...model, ...state };
  const byNumber = new Map([...model.sections, ...sections].map((section) => [section.number, section]));
  return { ...model, ...state, sections: [...byNumber.values()] };
}
