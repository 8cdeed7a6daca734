"""A keyboard that plays the recorded levels, and eyes that compare what is shown with what was recorded."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.site.recordings import graph_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

CAN_BE_PRESSED = ":not([aria-disabled=true])"
SETTLED = "#purchases[aria-busy=false]"
MOST_TABS = 60


class Keyboard:
    """Presses the buttons of a page."""

    def __init__(self, page: Page) -> None:
        self._page, self._last = page, ""

    def press(self, does: str, buyer: str) -> None:
        """A button of a purchase, as soon as it can be pressed, until the page has shown what came of it."""
        button = f"[data-do='{does} {buyer}']{CAN_BE_PRESSED}"
        self._page.wait_for_selector(button)
        keys = {"step": buyer.lower(), "freeze": f"Shift+{buyer}", "kill-sent": "k" if self._last == buyer else None}
        if key := keys.get(does):
            self._page.keyboard.press(key)
        else:
            self.push(button)
        if does in ("step", "freeze"):
            self._last = buyer
        self._page.wait_for_selector(SETTLED)

    def push(self, button: str) -> None:
        """Any button: Tab leads to it."""
        for _ in range(MOST_TABS):
            self._page.keyboard.press("Tab")
            if self._page.evaluate("selector => document.activeElement.matches(selector)", button):
                return self._page.keyboard.press("Enter")
        raise AssertionError(f"Tab does not lead to {button}")


def levels_of(page: Page) -> list[str]:
    """The guards of the page's levels."""
    page.wait_for_selector(".levels button")
    levels: list[str] = page.eval_on_selector_all(".levels li button", "all => all.map(({ value }) => value)")
    return levels


# What is left and sold, the lines at which purchases stand, and what each is told.
SHOWN = """() => [".stage-figures dd", ".code-lines .here", ".purchase p span"].map((selector) =>
  [...document.querySelectorAll(selector)].map((each) => each.dataset.line ?? each.textContent))"""


def assert_as_recorded(page: Page, recording: dict[str, Any], state: int) -> None:
    """The page shows the figures and lines of this state, and a text for each purchase."""
    (graph,) = recording["graphs"]
    *purchases, stock, orders, _, _ = graph["states"][state]
    figures, lines, words = page.evaluate(SHOWN)
    at = {graph["rows"][place][recording["purchase"].index("line")] for place in purchases} - {None}
    assert figures[:2] == [str(stock), str(orders)]
    assert {*lines} == {*map(str, at)}
    assert len(words) == len(purchases), words
    assert not re.search(r"undefined|NaN|null|[{}]|\d{4}", "".join(words)), words  # four digits: a token as it is


def win_all(page: Page, recordings: Path) -> None:
    """Win each level of the page; one step back, and it is as it was."""
    hand = Keyboard(page)
    for guard in levels_of(page):
        recording, state, before = recorded(recordings, guard), 0, 0
        if page.get_attribute(f".levels button[value={guard}]", "aria-current") != "true":
            hand.push(f".levels button[value={guard}]")
        page.wait_for_selector(f".levels button[value={guard}][aria-current=true]")
        page.wait_for_selector(SETTLED)
        for move in way_out(recording):
            buyer, _, fault = move.partition("-")
            does = {"": "step", "pause": "freeze"}.get(fault, fault)
            is_frozen = page.get_attribute(f".purchase:has([data-do='step {buyer}'])", "data-frozen") == "true"
            hand.press("freeze" if is_frozen and not fault else does, buyer)
            before, state = state, recording["graphs"][0]["moves"][state][move]
            assert_as_recorded(page, recording, state)
        page.wait_for_selector(f".levels button[value={guard}][data-solved=true]")
        hand.push("#undo")
        page.wait_for_selector(SETTLED)
        assert_as_recorded(page, recording, before)


def recorded(recordings: Path, guard: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((recordings / graph_of(guard)).read_text(encoding="utf-8"))
    return found


def way_out(recording: dict[str, Any]) -> list[str]:
    """The shortest way to the end that is the aim: a wrong one; under a guard that has none, a refused write or any."""
    (graph,) = recording["graphs"]
    columns = recording["purchase"]

    def rank(end: str) -> int:
        rows = [dict(zip(columns, graph["rows"][place], strict=True)) for place in graph["states"][int(end)][:-4]]
        return 2 * any(graph["ends"][end][2]) + any("fenced off" in str(row["detail"]) for row in rows)

    best = max(map(rank, graph["ends"]))
    return way_to(graph, lambda state: str(state) in graph["ends"] and rank(str(state)) == best)


def way_to(graph: dict[str, Any], is_there: Callable[[int], bool]) -> list[str]:
    """The shortest way from the beginning to a state."""
    ways: dict[int, list[str]] = {0: []}
    queue = deque([0])
    while not is_there(state := queue.popleft()):
        new = {to: [*ways[state], move] for move, to in graph["moves"][state].items() if to not in ways}
        ways |= new
        queue.extend(new)
    return ways[state]
