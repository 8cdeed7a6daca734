// Links to pages of the board lead to the pages of the site; the page has its card's title, and says that it was recorded.

import { chosenLanguage } from "/static/slow/language.js";
import { make } from "/static/slow/code.js";
import { speaker } from "/static/slow/texts.js";
import { recorded } from "./recorded.js";
import { TEXTS } from "./texts.js";

const language = chosenLanguage(["en", "zh"]);
const t = speaker(TEXTS, language);
const { card, pages, mistakes, made } = recorded; // pages: the file of each page, by its path on the board

function fileOf(path, rest) {
  const [, guard] = rest.match(/[#&]guard=([^&]+)/) ?? [];
  return mistakes.includes(guard) ? pages["/mistakes"] : (pages[path] ?? pages["/"]);
}

function lead(link) {
  const [, path, rest] = link.getAttribute("href").match(/^([^?#]*)(.*)$/);
  link.setAttribute("href", `${fileOf(path, rest)}${rest || `?lang=${language}`}`);
  if (path === "/") link.textContent = t("home");
}

const header = document.querySelector("header");
if (card && !header.querySelector("a[href='/'], a[href^='/?']")) header.prepend(make("a", { href: "/" }));
const leadAll = () => document.querySelectorAll("a[href^='/']").forEach(lead);
new MutationObserver(leadAll).observe(document.body, { subtree: true, childList: true, attributeFilter: ["href"] });
leadAll();
if (card) document.title = header.querySelector("h1, .brand").textContent = t(card);
const day = made && new Date(made).toLocaleDateString(language, { dateStyle: "long" });
if (day) document.body.append(make("footer", { class: "recorded" }, t("recorded", { day })));
