// A record as the moves of its purchases, one after the other: what each passed, when, on which line, and what it did to
// the counter. No page is needed for it.

import { lossesOf } from "./losses.js";

const JUST_MS = 1e-4;
const REFUSED = ["lock_lost"];
const OLD = ["locked", "read", "think", "write", "left"]; // of a record without lines: one line for each

export const tokenText = (token) => [token].flat().join(".");

// { moves: [{ at, section, point, line, value, was, lost, refused }], end, instances, arrivals }; times in milliseconds.
export function movesOf({ sections, ledger, answers = [], stock, guard, source }) {
  const own = source && sections.some((section) => section.line != null);
  const known = own ? sections : sections.map(withOldPoints);
  const moves = known.flatMap((section) => pointsOf(section));
  const writes = lossesOf({ sections: known, ledger, stock });
  for (const move of moves) take(move, writes.get(move.section.order));
  placeWrites(moves);
  moves.sort((a, b) => a.at - b.at || a.rank - b.rank);
  const arrivals = arrivalsOf(known, answers);
  const end = [...moves.map(({ at }) => at), ...arrivals.map(({ to }) => to)].reduce((last, at) => Math.max(last, at), 0);
  const instances = [...new Set(known.map(({ instance }) => instance))].sort();
  return { moves, end, instances, guard, source: own ? source : null, arrivals, shortName: shortNames(known) };
}

// What the sale showed after the first `number` moves, and who was inside.
export function stateAfter({ moves, stock }, number) {
  const state = { counter: stock, ledger: 0, lost: 0, token: null, inside: new Map() };
  for (const move of moves.slice(0, number)) {
    const { section, point } = move;
    if (point === "left") state.inside.delete(section);
    else state.inside.set(section, move);
    if (move.sold) [state.counter, state.ledger, state.lost] = [move.counter, move.number, move.soFar];
    if (section.token != null && !isHigher(state.token, section.token)) state.token = section.token;
  }
  return state;
}

// The token of a turn within a hold is a pair; pairs compare by their first number, and then by the second.
function isHigher(one, other) {
  const [[a, b = 0], [c, d = 0]] = [[one].flat(), [other].flat()];
  return one != null && (a > c || (a === c && b > d));
}

function pointsOf(section) {
  const { entered_ms, line, points, left_ms, stock_read } = section;
  const all = [{ name: "locked", line, at_ms: entered_ms }, ...points];
  if (left_ms != null && points.at(-1)?.name !== "left") all.push({ name: "left", line, at_ms: left_ms });
  const value = { read: stock_read, write: stock_read == null ? null : stock_read - 1, wrote: section.stock };
  return all.map(({ name, line: at_line, at_ms }, rank) => ({ at: at_ms, section, point: name, line: at_line, rank, value: value[name] ?? null }));
}

// Before the lines were kept, a record had only the times of four points.
function withOldPoints(section) {
  const { read_ms, commit_ms, left_ms, stock, outcome } = section;
  const at = { read: read_ms, write: commit_ms, wrote: commit_ms == null ? null : left_ms, left: left_ms };
  const points = Object.entries(at).filter(([, at_ms]) => at_ms != null);
  const line = (name) => OLD.indexOf(name === "wrote" ? "write" : name);
  const stock_read = outcome === "sold" && read_ms != null && stock != null ? stock + 1 : null;
  return { ...section, stock_read, line: 0, points: points.map(([name, at_ms]) => ({ name, at_ms, line: line(name) })) };
}

// What a move did to the counter, if it is the write of an order in the ledger; or whether its write was refused.
function take(move, write) {
  const { section, point } = move;
  move.sold = point === "wrote" && write?.section === section;
  if (move.sold) Object.assign(move, write, { value: write.counter });
  const decides = section.points.some(({ name }) => name === "wrote") ? "wrote" : "left";
  move.refused = point === decides && REFUSED.includes(section.outcome);
}

// Redis executed each write between its sending and its answer, in the order of the ledger, and before the first read
// that can have seen no other one.
function placeWrites(moves) {
  const reads = moves.filter(({ point, value }) => point === "read" && value != null);
  const written = moves.filter(({ sold }) => sold).sort((a, b) => b.number - a.number);
  const first = new Map(written.map((move) => [move.counter, move]));
  let next = Infinity;
  for (const move of written) {
    const sent = move.section.commit_ms ?? move.at;
    const seen = reads.filter(({ at, value }) => first.get(value) === move && at >= sent && at < move.at);
    const before = seen.reduce((earliest, { at }) => Math.min(earliest, at), move.at) - JUST_MS;
    move.at = next = Math.min(next - JUST_MS, Math.max(sent, before));
  }
}

// From the click until it was let in: [{ instance, from, to }].
function arrivalsOf(sections, answers) {
  const entered = new Map();
  for (const { buyer, entered_ms } of [...sections].reverse()) entered.set(buyer, entered_ms);
  return answers.map(({ buyer, instance, sent_ms, answered_ms }) => ({ instance, from: sent_ms, to: entered.get(buyer) ?? answered_ms }));
}

// On a marker, a buyer's name without what all names begin with; a bare number would pass for one of items.
function shortNames(sections) {
  const names = sections.map(({ buyer }) => buyer);
  let same = names.length > 1 ? names[0].lastIndexOf("-") + 1 : 0;
  while (same && !names.every((name) => name.length > same && name.startsWith(names[0].slice(0, same)))) same = names[0].lastIndexOf("-", same - 2) + 1;
  return (name) => name.slice(same).replace(/^(?=\d+$)/, "#");
}
