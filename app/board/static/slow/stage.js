// The sale in figures, and the guard's lines with the purchases of all instances on them.

import { Code, make, setText } from "./code.js";

export class Stage {
  #figures = make("dl", { class: "stage-figures" });
  #legend = make("p", { class: "stage-legend", "aria-hidden": "true" });
  #code;

  constructor(root, t) {
    const lines = make("section");
    this.root = root;
    root.classList.add("stage");
    root.replaceChildren(this.#figures, this.#legend, lines);
    this.#code = new Code(lines, t);
  }

  // `instances`: names, in the order of their colours; `figures`: [[name, value, tone]]; `source` and `markers`: see Code.
  show({ instances, figures, source, markers }) {
    for (const [index, [name, value, tone = ""]] of figures.entries()) {
      const row = this.#figures.children[index] ?? this.#figures.appendChild(make("div", {}, make("dt"), make("dd")));
      row.dataset.tone = tone;
      setText(row.firstChild, name);
      setText(row.lastChild, value);
    }
    if (this.#legend.textContent !== instances.join("")) this.#legend.replaceChildren(...instances.map((name, colour) => make("span", { class: `colour-${colour % 4}` }, name)));
    this.#code.show({ source, markers });
  }
}
