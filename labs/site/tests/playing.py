"""Hands that play the recorded levels: a keyboard, and a robot with a mouse that goes everywhere."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labs.site.recordings import graph_of
from tests.support.browser_fixtures import Page

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


def win_all(page: Page, recordings: Path) -> None:
    """Win each level of the page."""
    hand = Keyboard(page)
    for guard in levels_of(page):
        if page.get_attribute(f".levels button[value={guard}]", "aria-current") != "true":
            hand.push(f".levels button[value={guard}]")
        page.wait_for_selector(f".levels button[value={guard}][aria-current=true]")
        page.wait_for_selector(SETTLED)
        for move in way_out(recorded(recordings, guard)):
            buyer, _, fault = move.partition("-")
            does = {"": "step", "pause": "freeze"}.get(fault, fault)
            is_frozen = page.get_attribute(f".purchase:has([data-do='step {buyer}'])", "data-frozen") == "true"
            hand.press("freeze" if is_frozen and not fault else does, buyer)
        page.wait_for_selector(f".levels button[value={guard}][data-solved=true]")


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


# Clicks along every move to a state that was not seen, and Undo back; compares what is shown with the recording.
# Returns how many states were seen, and what was wrong; four digits would be a token that is not told by its order.
ROBOT = """
async ({ purchase: columns, graphs: [{ rows, states, moves }] }) => {
  const [seen, wrong] = [new Set(), []];
  const $ = (id) => document.getElementById(id);
  const kinds = { freeze: "-pause", kill: "-kill", "kill-sent": "-kill-sent", lost: "-lost" };
  const texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent);
  const settled = async () => { while ($("purchases").ariaBusy === "true") await null; };
  const offered = () => Object.fromEntries([...document.querySelectorAll("#purchases button")]
    .filter(({ hidden, ariaDisabled }) => !hidden && ariaDisabled !== "true")
    .map((button) => [button.dataset.do.at(-1) + (kinds[button.dataset.move] ?? ""), button]));
  const same = (what, number, one, other) => {
    const [shown, recorded] = [one, other].map((each) => JSON.stringify(each.map(String).toSorted()));
    if (shown !== recorded) wrong.push(`${what} in ${number}: ${shown}, not ${recorded}`);
  };
  const look = (number) => {
    const state = states[number];
    const [stock, orders] = state.slice(-4);
    const [all, line] = [state.slice(0, -4).map((place) => rows[place]), columns.indexOf("line")];
    same("moves", number, Object.keys(offered()), Object.keys(moves[number]));
    same("figures", number, texts(".stage-figures dd").slice(0, 2), [stock, orders]);
    same("lines", number, [...document.querySelectorAll(".code-lines .here")].map((each) => each.dataset.line),
      [...new Set(all.map((row) => row[line]).filter((each) => each != null))]);
    const words = texts(".purchase p span");
    const isTold = words.length === all.length && words.every((each) => /^[A-D] \\S/.test(each));
    const isClean = !/undefined|NaN|null|[{}]|\\d{4}/.test([...words, ...texts("#result")]);
    const [problem] = texts("#problem");
    if (!isTold || !isClean || problem) wrong.push(`words in ${number}: ${words}, ${texts("#result")}, ${problem}`);
  };
  const walk = async (number) => {
    seen.add(number);
    look(number);
    for (const [move, to] of Object.entries(moves[number])) {
      if (seen.has(to)) continue;
      offered()[move]?.click();
      await settled();
      await walk(to);
      $("undo").click();
      await settled();
    }
  };
  $("begin").click();
  await settled();
  await walk(0);
  return [seen.size, wrong];
}
"""
