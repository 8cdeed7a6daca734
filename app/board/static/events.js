// What was done to the sale, in words: a line where it happened, and its text below the lanes.

import { rem, svgEl, textWidth } from "./dom.js";

const MOST_ROWS = 3;

// Each text in the first row that has room for it; { rows, marks }, where a mark in no row has a line alone.
export function packEvents(events, x, width) {
  const gap = 0.4 * rem();
  const ends = [];
  const marks = [...events].sort((a, b) => a.at_ms - b.at_ms).map(({ at_ms, text: whole }) => {
    const at = x(at_ms);
    const text = shortened(whole, width - 2 * gap);
    const length = textWidth(text) + 2 * gap;
    const begin = at + length <= width ? at : Math.max(0, at - length);
    let row = ends.findIndex((end) => end <= begin);
    if (row < 0) row = ends.length;
    if (row < MOST_ROWS) ends[row] = begin + length;
    return { at, text, begin: begin + gap, row };
  });
  return { rows: ends.length, marks };
}

function shortened(text, width) {
  if (textWidth(text) <= width) return text;
  let length = text.length;
  while (length && textWidth(`${text.slice(0, length)}…`) > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

export function drawEvents({ events, top, bottom, line }) {
  const drawn = events.marks.map(({ at, text, begin, row }) => {
    const shown = row < MOST_ROWS;
    const rule = svgEl("line", { class: "event-line", x1: at, x2: at, y1: top, y2: bottom + (shown ? row + 0.9 : 0) * line });
    const title = svgEl(shown ? "text" : "title", { class: "event", x: begin, y: bottom + (row + 0.8) * line });
    title.textContent = text;
    if (!shown) rule.append(title);
    return { rule, title: shown ? [title] : [] };
  });
  // Texts last: none is crossed out by another's line.
  return [...drawn.map(({ rule }) => rule), ...drawn.flatMap(({ title }) => title)];
}
