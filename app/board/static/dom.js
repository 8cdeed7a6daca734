// Helpers of all panels. Text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

export function svgEl(tag, attributes = {}) {
  const node = document.createElementNS(SVG, tag);
  setAll(node, attributes);
  return node;
}

export function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
}

// Most texts stay the same several times a second, so only a change touches the page.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// The size of the text, by which drawings are scaled.
export const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

// The width of a small text in pixels.
export function textWidth(text) {
  const pen = (textWidth.pen ??= document.createElement("canvas").getContext("2d"));
  pen.font = `${0.9 * rem()}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// The token of a turn within a hold is a pair.
export const tokenText = (token) => [token].flat().join(".");

export function duration(ms) {
  if (ms == null) return "";
  if (ms < 10) return `${+ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

// The number of items with each key.
export function countBy(items, keyOf) {
  const counts = {};
  for (const item of items) counts[keyOf(item)] = (counts[keyOf(item)] ?? 0) + 1;
  return counts;
}

// One copy of the parent's template for each key, in order, kept as long as its key, so that the keyboard's focus stays.
export function keyed(parent, items, keyOf, update) {
  const template = $(`${parent.id}-item`).content.firstElementChild;
  const known = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  items.forEach((item, index) => {
    const key = String(keyOf(item));
    let node = known.get(key);
    known.delete(key);
    if (!node) {
      node = template.cloneNode(true);
      node.dataset.key = key;
    }
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
    update(node, item, index);
  });
  for (const node of known.values()) node.remove();
}
