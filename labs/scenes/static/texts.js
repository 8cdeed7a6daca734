// The texts of the page, which the terminal has, too: texts.json.
const TEXTS = await (await fetch("/scenes/static/texts.json")).json();

const asked = new URLSearchParams(location.search).get("lang");
const wanted = [asked, ...navigator.languages].filter(Boolean).map((tag) => tag.slice(0, 2));
export const language = wanted.find((tag) => tag in TEXTS) ?? "en";

// A value may be the key of a text as well.
export function text(key, values = {}) {
  return TEXTS[language][key].replace(/\{(\w+)\}/g, (_, name) => TEXTS[language][values[name]] ?? values[name]);
}

export const has = (key) => key in TEXTS[language];
