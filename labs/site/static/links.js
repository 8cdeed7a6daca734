// Links to pages of the board lead to the pages of the site, and the last line says what the page is.

import { chosenLanguage } from "/static/slow/language.js";
import { make } from "/static/slow/code.js";
import { speaker } from "/static/slow/texts.js";
import { recorded } from "./recorded.js";
import { TEXTS } from "./texts.js";

const language = chosenLanguage(["en", "zh"]);
const t = speaker(TEXTS, language);
const { pages, made } = recorded; // pages: the file of each page that the site has, by its path on the board

function lead(link) {
  const [, path, rest] = link.getAttribute("href").match(/^([^?#]*)(.*)$/);
  if (!path.startsWith("/")) return;
  link.href = `${pages[path] ?? pages["/"]}${rest}`;
  if (path === "/") link.textContent = t("home");
}

const leadAll = () => document.querySelectorAll("a[href^='/']").forEach(lead);
new MutationObserver(leadAll).observe(document.body, { subtree: true, childList: true, attributeFilter: ["href"] });
leadAll();
const day = made && new Date(made).toLocaleDateString(language, { dateStyle: "long" });
if (day) document.body.append(make("footer", { class: "recorded" }, t("recorded", { day })));
