// The table of the libraries, in the language of the page.

import { $ } from "/static/dom.js";
import { chosenLanguage } from "/static/slow/language.js";
import { speaker } from "/static/slow/texts.js";
import { TEXTS } from "./texts.js";

const language = (document.documentElement.lang = chosenLanguage(["en", "zh"]));
const t = speaker(TEXTS, language);
Object.assign($("language"), { textContent: t("language"), href: `?lang=${language === "zh" ? "en" : "zh"}` });
for (const other of document.querySelectorAll(`.document:not(:lang(${language}))`)) other.remove(); // both have the same anchors
if (location.hash) location.replace(location.hash);
