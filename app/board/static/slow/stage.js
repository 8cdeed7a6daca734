// The guard's lines, one column for each instance, with a marker for each purchase on its line; the sale between them.
// Slow motion and the scheduler of labs/steps show it. The report has this file in its page, so it needs no other one.

const SHOWN = 2; // markers on one line; the others are counted

export const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

export const setText = (node, text) => node.textContent !== String(text) && (node.textContent = text);

// The comment at a line's end is fainter than the code. A "#" inside quotation marks begins none.
function codeOf(text) {
  const [, code, comment] = text.match(/^((?:"[^"]*"|'[^']*'|[^#"'])*)(#.*)?$/) ?? [null, text];
  return make("code", {}, code, ...(comment ? [make("i", {}, comment)] : []));
}

export class Stage {
  #columns = new Map(); // by name
  #middle = make("dl", { class: "stage-middle" });
  #reserved = new Set(); // lines that had a marker keep its place, so that no line moves again

  // `t` has the text "more".
  constructor(root, t) {
    this.root = root;
    this.t = t;
    root.classList.add("stage");
  }

  // `columns`: [{ name, colour, source, markers: [{ line, label, text, tone, current }] }], at most two for each row;
  // `middle`: [[name, value, tone]].
  show({ columns, middle }) {
    const names = columns.map(({ name }) => name).join();
    if (this.names !== names) this.#build(columns, names);
    for (const [index, [name, value, tone = ""]] of middle.entries()) {
      const row = this.#middle.children[index] ?? this.#middle.appendChild(make("div", {}, make("dt"), make("dd")));
      row.dataset.tone = tone;
      setText(row.firstChild, name);
      setText(row.lastChild, value);
    }
    for (const { line } of columns.flatMap(({ markers }) => markers)) this.#reserved.add(line);
    for (const column of columns) this.#showColumn(column);
  }

  // A place below the column's name for the controls of its owner.
  slot(name) {
    return this.#columns.get(name).slot;
  }

  #build(columns, names) {
    this.names = names;
    this.#columns = new Map(
      columns.map(({ name, colour }) => {
        const parts = { file: make("small"), slot: make("div", { class: "stage-slot" }), lines: make("ol", { class: "stage-lines" }) };
        parts.node = make("section", { class: `stage-column colour-${colour % 4}`, "aria-label": name }, make("h3", {}, make("b", {}, name), " ", parts.file), parts.slot, parts.lines);
        return [name, parts];
      }),
    );
    const [first, ...others] = [...this.#columns.values()].map(({ node }) => node);
    this.root.replaceChildren(...(first ? [first] : []), this.#middle, ...others);
    this.#reserved.clear();
  }

  #showColumn({ name, source, markers }) {
    const { file, lines } = this.#columns.get(name);
    if (lines.source !== source.text) {
      lines.source = source.text;
      lines.replaceChildren(...source.text.trimEnd().split("\n").map((text, index) => make("li", { "data-line": source.first_line + index }, codeOf(text), make("span", { class: "stage-marks" }))));
    }
    setText(file, source.first_line ? `${source.file}:${source.first_line}` : source.file);
    for (const row of lines.children) {
      const line = Number(row.dataset.line);
      const here = markers.filter((marker) => marker.line === line);
      row.classList.toggle("reserved", this.#reserved.has(line));
      row.classList.toggle("here", here.length > 0);
      row.classList.toggle("current", here.some(({ current }) => current));
      this.#mark(row.lastChild, here);
    }
  }

  #mark(place, here) {
    const order = [...here].sort((a, b) => Boolean(b.current) - Boolean(a.current));
    const shown = order.slice(0, order.length > SHOWN + 1 ? SHOWN : SHOWN + 1);
    const chips = shown.map(({ label, text, tone = "", current }) => [`stage-mark ${tone} ${current ? "now" : ""}`, label, text]);
    if (order.length > shown.length) chips.push(["stage-more", "", this.t("more", { count: order.length - shown.length })]);
    const key = chips.join("|");
    if (place.dataset.key === key) return;
    place.dataset.key = key;
    place.replaceChildren(...chips.map(([name, label, text]) => make("span", { class: name }, ...(label ? [make("b", {}, label), " "] : []), text)));
  }
}
