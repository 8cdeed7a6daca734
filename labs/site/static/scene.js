// A scene that was recorded, played as it happened; only where it waited for the teacher it waits for the reader.

import { recorded, route } from "./recorded.js";

const { film } = recorded; // [time in ms, what changed], ...
let show = null;
let place = 0; // of the next change
let at = 0; // time in the film
let before = 0;

function turn() {
  const [ms, change] = film[place++];
  at = ms;
  show = { ...show, ...change };
}

function look() {
  const now = performance.now();
  const until = at + now - before;
  before = now;
  while (show && !show.waits && film[place]?.[0] <= until) turn();
  if (show && !show.waits) at = until;
  return { scenes: [film[0][1].scene], show };
}

function start() {
  [show, place, at, before] = [{}, 0, 0, performance.now()];
  turn();
  return {};
}

function stop() {
  show = { ...show, over: true, waits: false };
  place = film.length;
  return {};
}

route("/scenes/state", look);
route("/scenes/start", start);
route("/scenes/stop", stop);
route("/scenes/next", () => (show?.waits && turn(), (before = performance.now()), {}));
start();
