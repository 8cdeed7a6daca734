"""While a rush runs, every control keeps its place and its size, and all that is shown changes at once."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Look
from tests.support.looking import Looker
from tests.support.selling import Sales

pytestmark = pytest.mark.slow

STOCK, BUYERS, HOLD_MS = 100, 200, 20
# Keeps the boxes of all controls ten times a second, and what was wrong with them.
WATCH = """() => {
  const boxes = new Map();
  window.moved = [];
  window.looked = 0;
  const nameOf = (node) => node.id || `${node.closest("tr, [id]").dataset.key} ${node.textContent}`;
  const look = () => {
    window.looked += 1;
    for (const node of document.querySelectorAll("button, select, input, a")) {
      const { x, y, width, height, right, bottom } = node.getBoundingClientRect();
      if (!width) continue;
      const [name, box] = [nameOf(node), [x, y, width, height].map((each) => Math.round(each * 10) / 10).join()];
      if (boxes.has(node) && boxes.get(node) !== box) moved.push(`${name}: ${boxes.get(node)} -> ${box}`);
      boxes.set(node, box);
      const room = (node.closest(".panel, .bar, .drawer") ?? document.body).getBoundingClientRect();
      const isPast = x < room.x - 1 || y < room.y - 1 || right > room.right + 1 || bottom > room.bottom + 1;
      if (isPast || right > innerWidth || bottom > innerHeight) moved.push(`${name} leaves its panel: ${box}`);
      if (node.scrollWidth > node.clientWidth + 1) moved.push(`${name} is clipped`);
    }
    for (const panel of document.querySelectorAll(".panel, .bar, .verdict")) {
      const cut = panel.scrollHeight - panel.clientHeight > 1 || panel.scrollWidth - panel.clientWidth > 1;
      if (cut) moved.push(`${panel.className} is too small: ${panel.innerText}`);
    }
  };
  look();
  setInterval(look, 100);
}"""
# In each frame: headline, squares, table, and bars of instances.


def rush_past(looker: Looker, sales: Sales) -> None:
    """A rush with all threads busy, whose holder is frozen and goes on."""
    sales.rush(stock=STOCK, buyers=BUYERS, hold_ms=HOLD_MS)
    looker.wait_text("#more", "buyers in line outside")
    looker.wait_figure("sold", 20)
    first = looker("#instances tr").first
    for action, state in (("freeze", "frozen"), ("thaw", "up busy")):
        first.locator(f"button[data-action={action}]").click()
        states = ", ".join(f"[data-state={each}]" for each in state.split())
        looker.page.wait_for_selector(f"#instances tr:first-child:is({states})")
    sales.finish()
    looker.wait_figure("sold", STOCK)
    looker.wait_text("#word", "^EXACT$")


def test_no_control_moves_in_a_rush(look: Look, sales: Sales) -> None:
    """With 2 x 64 busy threads, details and a frozen holder, no control moves, changes size or leaves its panel."""
    sales.reset(STOCK)
    viewers = [
        look(viewport={"width": width, "height": height}, locale=lang)
        for width, height, lang in ((1024, 768, "en"), (1920, 1080, "en"), (1024, 768, "zh"))
    ]
    for looker in viewers:
        looker.page.click("#toggle-details")
        looker.wait_figure("counter", STOCK)
        looker.page.evaluate(WATCH)
    rush_past(viewers[0], sales)
    for looker in viewers:
        looker.wait_figure("sold", STOCK)
        assert looker.page.evaluate("() => looked") > 20
        moved = looker.page.evaluate("() => moved")
        assert moved == [], "\n".join(moved)
