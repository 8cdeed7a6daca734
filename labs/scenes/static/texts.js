// The texts of the page, which the terminal has, too: texts.json.
const TEXTS = await (await fetch("/scenes/static/texts.json")).json();

const asked = new URLSearchParams(location.search).get("lang");
const wanted = [asked, ...navigator.languages].filter(Boolean).map((tag) => tag.slice(0, 2));
export const language = wanted.find((tag) => tag in TEXTS) ?? "en";

export function text(key, values = {}) {
  return TEXTS[language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}
