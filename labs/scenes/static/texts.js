// The texts of the page, which the terminal has, too: texts.json.
import { chosenLanguage, filled } from "/static/slow/language.js";

const TEXTS = await (await fetch("/scenes/static/texts.json")).json();

export const language = chosenLanguage(Object.keys(TEXTS));

// A value may be the key of a text as well.
export const text = (key, values = {}) => filled(TEXTS[language][key], values, (value) => TEXTS[language][value] ?? value);

export const has = (key) => key in TEXTS[language];
