// The board's stream of events, kept as one model. Reconnects by itself, also if the browser would not.

const RETRY_MS = 1000;
const SILENT_MS = 7000; // the board sends at least every five seconds

export class Live {
  #source = null;
  #timer = 0;
  #watchdog = 0;

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
    this.#listen();
  }

  // A hidden page costs the sale nothing.
  pause() {
    this.#end();
    this.connection("paused");
  }

  #take(model) {
    this.model = model;
    this.#listen();
    this.connection("live");
    this.changed(model);
  }

  // A browser reconnects after a broken connection, but not after an answer such as 503, nor to one that is only silent.
  #lost() {
    this.connection("waiting");
    if (this.#source?.readyState === EventSource.CLOSED) this.#again();
  }

  #listen() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => {
      this.connection("waiting");
      this.#again();
    }, SILENT_MS);
  }

  #again() {
    this.#end();
    this.#timer = setTimeout(() => this.start(), RETRY_MS);
  }

  #end() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watchdog);
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
