// Code that a room can read: one line of the file is one line of the page, or its continuation hangs right of it. The
// markers of purchases stand on their lines. Slow motion, labs/steps and labs/scenes show it; a report has it inside.

const SHOWN = 2; // markers on one line; of more, the first is shown and the others are counted

export const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

export const setText = (node, text) => node.textContent !== String(text) && (node.textContent = text);

// A button that can't be pressed now keeps the keyboard's focus; `press` is called only when it can.
export const pressable = (node, press) => (node.addEventListener("click", () => node.ariaDisabled !== "true" && press()), node);
export const allow = (node, on) => (node.ariaDisabled = on ? null : "true");

// A "#" inside quotation marks begins no comment.
function split(text) {
  const [, code, comment = ""] = text.match(/^((?:"[^"]*"|'[^']*'|[^#"'])*)(#.*)?$/) ?? [null, text];
  return [code.trimEnd(), comment];
}

// Too long a line breaks before a word or behind a bracket.
const breakable = (code) => code.split(/(?<=[(.])(?=\w)/).flatMap((part, index) => (index ? [make("wbr"), part] : [part]));

export class Code {
  #file = make("small");
  #lines = make("ol", { class: "code-lines" });
  #shown = "";

  // `t` has the text "more".
  constructor(root, t) {
    this.t = t;
    root.classList.add("code");
    root.append(this.#file, this.#lines);
  }

  // `source`: { file, first_line, text }; `markers`: [{ line, label, colour, text, tone, current }].
  show({ source, markers }) {
    if (this.#shown !== source.text) this.#build(source);
    setText(this.#file, source.first_line ? `${source.file}:${source.first_line}` : source.file);
    for (const row of this.#lines.children) {
      const here = markers.filter(({ line }) => line === Number(row.dataset.line));
      here.sort((a, b) => Boolean(b.current) - Boolean(a.current));
      row.classList.toggle("here", here.length > 0);
      row.classList.toggle("current", here.some(({ current }) => current));
      row.className = row.className.replace(/ ?colour-\d/, "") + (here.length ? ` colour-${here[0].colour % 4}` : "");
      this.#mark(row, here);
    }
  }

  #build({ text, first_line }) {
    this.#shown = text;
    const shared = Math.min(...text.match(/^ *(?=\S)/gm).map(({ length }) => length));
    const rows = text.trimEnd().split("\n").map((line, index) => {
      const [code, comment] = split(line);
      const row = make("li", { "data-line": first_line + index }, make("span", { class: "code-marks" }), make("code", {}, ...breakable(code.trimStart())), make("span", { class: "code-note" }));
      row.style.setProperty("--level", (code.search(/\S|$/) - shared) / 4);
      row.dataset.comment = comment;
      return row;
    });
    this.#lines.replaceChildren(...rows);
  }

  #mark(row, here) {
    const shown = here.slice(0, here.length > SHOWN ? 1 : SHOWN);
    const chips = shown.map(({ label, colour, tone = "", current }) => [`code-mark colour-${colour % 4} ${tone} ${current ? "now" : ""}`, label]);
    if (here.length > shown.length) chips.push(["code-mark dim", this.t("more", { count: here.length - shown.length })]);
    const notes = shown.filter(({ text }) => text).slice(0, 1).map(({ text, tone = "" }) => [tone, text]);
    const key = JSON.stringify([chips, notes]);
    if (row.dataset.key === key) return;
    row.dataset.key = key;
    const [marks, , note] = row.children;
    marks.replaceChildren(...chips.map(([name, label]) => make("b", { class: name }, label)));
    // What has no room goes to a second line, which is not shown.
    const aside = notes.length ? notes.map(([tone, text]) => make("span", { class: tone }, text)) : [make("i", {}, row.dataset.comment)];
    note.replaceChildren("\u200b ", ...aside);
  }
}
