// The stock as squares that empty column by column; sales beyond the stock grow past its end.

import { $, rem, say, setAll, svgEl } from "./dom.js";
import { text } from "./texts.js";

const MOST_CELLS = 1500;
const ROOM = 2 / 3; // of the stock, kept free past its end, so that nothing moves while it is oversold
const GAP = 0.2;

export class Stock {
  #cells = [];
  #key = "";

  constructor(svg) {
    this.svg = svg;
    [this.end, this.label] = svg.children;
  }

  show(sale) {
    $("no-stock").hidden = Boolean(sale);
    if (!sale) return say($("stock-note"), "");
    const { initial, orders: sold } = sale;
    const over = Math.max(0, sold - initial);
    const each = Math.max(1, Math.ceil((initial + over) / MOST_CELLS)); // items that one square stands for
    // This panel counts orders; the counter is shown beside the verdict.
    const told = over ? text("stock.note_over", { n: sold, items: text("head.items", { n: initial }) }) : text("stock.note", { sold, initial });
    say($("stock-note"), each > 1 ? `${told}; ${text("stock.each", { n: each })}` : told);
    const stock = Math.ceil(initial / each);
    const beyond = Math.ceil(over / each);
    const { clientWidth: width, clientHeight: height } = this.svg;
    const room = Math.max(Math.ceil(stock * ROOM), Math.ceil(beyond / 50) * 50);
    const key = [stock, room, width, height].join();
    if (!width) return;
    if (key !== this.#key) this.#lay(stock, room, width, height);
    this.#key = key;
    say(this.label, over ? text("stock.beyond", { n: over }) : text("stock.end"));
    this.#placeLabel(over > 0, width);
    this.#fill(stock, Math.min(Math.ceil(sold / each), stock), beyond);
  }

  #lay(stock, room, width, height) {
    const top = Math.round(1.2 * rem());
    const pitchOf = (rows) => Math.min(width / (Math.ceil(stock / rows) + Math.ceil(room / rows) + 0.6), (height - top) / rows);
    this.rows = 1;
    for (let rows = 2; rows <= 60; rows += 1) if (pitchOf(rows) > pitchOf(this.rows)) this.rows = rows;
    const pitch = pitchOf(this.rows);
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}` });
    const endColumn = Math.ceil(stock / this.rows);
    while (this.#cells.length > stock + room) this.#cells.pop().remove();
    while (this.#cells.length < stock + room) {
      const cell = svgEl("rect");
      this.#cells.push(cell);
      this.svg.append(cell);
    }
    this.#cells.forEach((cell, index) => {
      const past = index >= stock;
      const place = past ? index - stock : index;
      const column = Math.floor(place / this.rows) + (past ? endColumn + 0.6 : 0);
      const size = pitch * (1 - GAP);
      setAll(cell, {
        x: (column * pitch).toFixed(2),
        y: (top + (place % this.rows) * pitch).toFixed(2),
        width: size.toFixed(2),
        height: size.toFixed(2),
        rx: (past ? size / 2 : size * 0.2).toFixed(2), // beyond the stock they are round: not by colour alone
      });
    });
    const x = (endColumn + 0.3 - GAP / 2) * pitch;
    setAll(this.end, { x1: x, x2: x, y1: 0, y2: top + this.rows * pitch });
    setAll(this.label, { y: top * 0.7 });
    this.endX = x;
  }

  // Above the squares that it is about, if it has the room there.
  #placeLabel(isOver, width) {
    const gap = 0.4 * rem();
    const needed = this.label.getComputedTextLength() + gap;
    const isRight = isOver ? this.endX + needed < width : this.endX < needed;
    setAll(this.label, isRight ? { x: this.endX + gap, "text-anchor": "start" } : { x: this.endX - gap, "text-anchor": "end" });
  }

  #fill(stock, sold, beyond) {
    this.#cells.forEach((cell, index) => {
      const past = index >= stock;
      setAll(cell, { class: past ? (index - stock < beyond ? "over" : "none") : index < sold ? "sold" : "left" });
    });
  }
}
