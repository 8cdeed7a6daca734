"""What makes a page legible on every screen, and in the language of its reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.guards import guards

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENS = [(1024, 768), (1280, 720), (1920, 1080), (390, 844)]
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, text
SMALLEST_TEXT = 12.0  # pixels

# Every visible text with its size, and its contrast with what is painted behind it.
TEXTS = """
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const painted = (colours) => {
    const key = colours.join();
    if (!known.has(key)) {
      pen.clearRect(0, 0, 1, 1);
      for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
      known.set(key, [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3));
    }
    return known.get(key);
  };
  const light = (rgb) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((each) => linear(each / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const colours = [];
    for (let each = node; each; each = each.parentElement) colours.unshift(getComputedStyle(each).backgroundColor);
    return colours;
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const text = [...node.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data).join("").trim();
    const { width, height } = node.getBoundingClientRect();
    const style = getComputedStyle(node);
    if (!text || width < 2 || height < 2 || node.closest(".unseen, noscript, :disabled, option, title")) continue;
    if (style.visibility === "hidden") continue;
    const ground = behind(node);
    const [a, b] = [painted(ground), painted([...ground, node.namespaceURI.endsWith("svg") ? style.fill : style.color])]
      .map(light).sort((one, other) => other - one);
    found.push([text, parseFloat(style.fontSize), (a + 0.05) / (b + 0.05)]);
  }
  return found;
}
"""
# Two frames: what a change of size has the page draw again, it draws in the second one at the latest.
DRAWN = """() => new Promise((drawn) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => drawn(innerWidth)))))"""
# Whatever is wider or higher than the box that hides the rest of it.
CLIPPED = """
() => [...document.querySelectorAll("main *, header *, .player *")].filter((node) => {
  const style = getComputedStyle(node);
  const [x, y] = [node.scrollWidth - node.clientWidth > 1, node.scrollHeight - node.clientHeight > 1];
  const cut = (x && style.overflowX !== "visible") || (y && style.overflowY !== "visible");
  return cut && node.clientWidth && !node.closest(".unseen, svg");
}).map((node) => `${node.tagName}.${node.className} ${node.id}`)
"""


def assert_legible(page: Page, *, least: int = 30) -> None:
    """No text is too small or too faint, and nothing is beside the window; there are more than `least` texts."""
    texts = page.evaluate(TEXTS)
    assert len(texts) > least
    assert [text for text, size, _ in texts if size < SMALLEST_TEXT] == []
    assert [(text, round(contrast, 1)) for text, _, contrast in texts if contrast < LEAST_CONTRAST] == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def assert_readable(page: Page, *, least: int = 30) -> None:
    """All is legible, and nothing is cut off."""
    assert_legible(page, least=least)
    assert page.evaluate(CLIPPED) == []


def on_every_screen(page: Page) -> Iterator[int]:
    """The widths of all screens, in dark and light, while the page is on them and has drawn itself for them."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for width, height in SCREENS:
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate(DRAWN) == width
            yield width


# Names, units and commands, which no language changes; the lines of a guard's file stay as they are written.
SAME = [*guards(), "instance-", "buyer-", "etcd", "Redis", "Locust", "English", "ms", "SIGSTOP", "UTC", ".json"]
SAME += ["fencing token", "create revision", "make up", "docker compose --profile locust up", "reports/…/records/"]
SAME += ["Ada", "Bob"]
# Every text that can be seen, pointed at, or is read out; of code only the notes on it.
CODE = ".code > small, .code-lines code, .code-note i"
WORDS = """(code) => [...document.querySelectorAll("body *:not(noscript, script, style)")]
  .filter((node) => !node.closest(code)).flatMap((node) => [
  ...[...node.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data),
  node.title ?? "", node.getAttribute?.("aria-label") ?? "", node.getAttribute?.("aria-valuetext") ?? ""])
  .concat(document.title).map((each) => String(each).trim()).filter(Boolean)"""


def english(page: Page, *names: str) -> list[str]:
    """Texts with words of another language; `names` are the same in all."""
    found = set()
    for text in page.evaluate(WORDS, CODE):
        same = sorted([*SAME, *names], key=len, reverse=True)
        rest = re.sub("|".join(map(re.escape, same)), "", text)
        if re.search("[A-Za-z]{2,}", rest):
            found.add(text)
    return sorted(found)
