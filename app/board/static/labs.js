// Links and panels of labs. A lab's module has `init(board)`; app/board/web/lab_parts.py says what it gets.

import { $ } from "./dom.js";

const watching = [];

// Adds what /setup tells of the labs. `send(path, body)` returns the answer, with `done` or `detail`.
export async function addLabs({ links, panels }, { send, toggle, language }) {
  const text = (title) => title[language] ?? title.en;
  for (const { path, title } of links) {
    $("nav").insertBefore(Object.assign(document.createElement("a"), { href: path, textContent: text(title) }), $("close-record"));
  }
  const drawer = (name, title) => {
    const section = Object.assign(document.createElement("section"), { id: name, className: "drawer lab", ariaLabel: text(title), hidden: true });
    const button = Object.assign(document.createElement("button"), { id: `toggle-${name}`, type: "button", textContent: text(title), ariaExpanded: "false" });
    button.setAttribute("aria-controls", name);
    button.addEventListener("click", () => toggle(name));
    $("nav").insertBefore(button, $("close-record"));
    $("main").before(section);
    return section;
  };
  for (const path of panels) (await import(path)).init({ drawer, send, language, onShow: (show) => watching.push(show) });
}

export const showLabs = (view) => watching.forEach((show) => show(view));
