"""Each control of the board, used from the page alone."""

from __future__ import annotations

import pytest

from loadtest.stack.apps import LocustPage
from loadtest.stack.control import state_of
from loadtest.stack.stack import Stack
from tests.browser.conftest import Look
from tests.support.looking import Looker
from tests.support.shops import Sales
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE_S = 60.0
HOLD_100 = 7  # the notch of the dial for 100 ms


def test_what_is_said_without_locust(look: Look, sales: Sales) -> None:
    """The page names the command that starts Locust; it says how long a think time makes the sale."""
    looker = look()
    fill_in(looker)
    dial(looker, HOLD_100)
    looker.page.wait_for_selector("#no-locust:visible")
    assert "make up" in looker.text("#no-locust")
    assert looker("#start").is_disabled() is True
    looker.wait_text("#foreseen", "^Under a lock, 300 sales in a row take at least 30.0 s.$")
    looker.page.fill("#rush-form [name=stock]", "900")
    looker.page.fill("#rush-form [name=buyers]", "800")
    looker.wait_text("#foreseen", "80.0 s. A buyer waits at most 60 s: after about 600 sales the others give up.")


def fill_in(looker: Looker, **fields: int) -> None:
    """The form of a rush under etcd."""
    looker.page.click("#toggle-controls")
    looker.page.wait_for_selector("#controls:visible")
    looker.page.select_option("#guard", "etcd")
    for name, value in fields.items():
        looker.page.fill(f"#rush-form [name={name}]", str(value))


def dial(looker: Looker, notch: int) -> None:
    """Turn the think time to a notch, by keyboard."""
    looker.page.locator("#think").focus()
    looker.page.keyboard.press("Home")
    for _ in range(notch):
        looker.page.keyboard.press("ArrowRight")


# Keeps what the page says; and what it says as soon as the click is over.
WATCH = """() => {
  const word = document.getElementById("word");
  window.told = [];
  new MutationObserver(() => told.push(word.textContent)).observe(word, { childList: true, characterData: true });
}"""
CLICK = """() => {
  document.getElementById("start").click();
  return document.getElementById("word").textContent;
}"""


def test_a_rush_is_started_with_its_think_time(look: Look, sales: Sales, locust: LocustPage) -> None:
    """Guard, buyers, items and the dial reach Locust; no button can disturb the rush, and its verdict is shown."""
    looker = look()
    fill_in(looker, buyers=30, stock=20)
    for key, most in (("End", "5.00 s"), ("Home", "0 ms")):
        looker.page.locator("#think").focus()
        looker.page.keyboard.press(key)
        assert looker.text("#think-time") == most
    dial(looker, HOLD_100)
    assert looker.text("#think-time") == "100 ms"
    looker.page.click("#start:enabled")
    for button in ("#start", "#reset"):
        looker.page.wait_for_selector(f"{button}:disabled[title^='A rush is running: ']")
    looker.wait_figure("sold", 20)
    looker.wait_text("#word", "^EXACT$")
    assert looker.figure("sold") == 20 == sales.ledger().total()
    assert sales.selling_s() >= 19 * 0.100
    for button in ("#start", "#reset"):
        looker.page.wait_for_selector(f"{button}:enabled[title='']")
    assert looker("#no-locust").is_hidden()


def test_one_click_rushes(look: Look, sales: Sales, locust: LocustPage) -> None:
    """A sale without a lock, and at the next click one with it; each verdict stands and can be opened.

    If the board refuses, the page says why, and the sale of before is shown again.
    """
    looker, other = look(), look()
    for guard in ("none", "etcd"):
        looker.page.select_option("#guard", guard)
        looker.page.wait_for_selector("#start:enabled")
        before = looker.text("#word")
        for viewer in (looker, other):
            viewer.page.evaluate(WATCH)
        assert looker.page.evaluate(CLICK) == "0 of 500 buyers are here"
        looker.page.wait_for_selector(f"#runs tr.current:not([data-tone=ready]) button:text-is('{guard}')")
        looker.page.wait_for_selector("#start:enabled")
        told = looker.page.evaluate("() => told")
        assert before not in told[: 1 + max(index for index, word in enumerate(told) if word.endswith("here"))]
        assert any(word.endswith("of 500 buyers are here") for word in other.page.evaluate("() => told"))
        if guard == "none":
            looker.wait_text("#word", "^OVERSOLD by ")
    looker.page.wait_for_selector("#runs tr.current[data-key=etcd]")  # not its row from an earlier sale
    wait_until(lambda: looker.runs()["etcd"][0] == "300", timeout=PATIENCE_S)
    sold, short = looker.runs()["none"]
    verdict = f"OVERSOLD by {int(sold) - 300}"
    assert (looker.runs()["etcd"][1], short) == ("EXACT", f"+{int(sold) - 300}")
    assert looker("#runs tr[data-key=none] .word").get_attribute("title") == verdict
    looker.page.click("#runs button:text-is('none')")
    looker.wait_text("#word", verdict)
    looker.wait_text("#timeline-note", "not alone")
    looker.page.wait_for_selector("#runs tr.current[data-key=none]")
    looker.page.click("#close-record")
    looker.wait_text("#word", "EXACT")
    refusal = {"type": "about:blank", "detail": "Not today."}
    looker.page.route("**/control/rush", lambda route: route.fulfill(status=200, json=refusal))
    assert looker.page.evaluate(CLICK) == "0 of 500 buyers are here"
    looker.wait_text("#said", "^Not today.$")
    looker.wait_text("#word", "^EXACT$")


@pytest.mark.parametrize(
    ("do", "shown", "state", "undo"), [("freeze", "frozen", "frozen", "thaw"), ("kill", "down", "ended", "start")]
)
def test_an_instance_is_disturbed_and_comes_back(
    look: Look, stack: Stack, sales: Sales, do: str, shown: str, state: str, undo: str
) -> None:
    """A frozen or killed instance is named as such while the other stays up; thawed or started, it sells again."""
    looker, (disturbed, other) = look(), stack.instances
    rows = [f"#instances tr[data-instance={each.name}]" for each in (disturbed, other)]
    sales.reset(10)
    looker.page.click(f"{rows[0]} button:text-is('{do}'):visible")
    looker.page.wait_for_selector(f"{rows[0]}[data-state={shown}]")
    assert shown in looker.text(rows[0]).lower()
    assert state_of(disturbed) == state
    looker.page.wait_for_selector(f"{rows[1]}:is([data-state=up], [data-state=busy])")
    looker.page.click(f"{rows[0]} button:text-is('{undo}'):visible")
    looker.page.wait_for_selector(f"{rows[0]}[data-state=up]")
    assert state_of(disturbed) == "running"

    def sells() -> bool:
        sales.buy("redis-lua")  # of the first instance, the disturbed one: the other would sell all there is
        return sales.ledger()[disturbed.name] > 0

    wait_until(sells, timeout=PATIENCE_S)  # the first click may come before it can
    wait_until(lambda: looker.instances()[disturbed.name] == sales.ledger()[disturbed.name], timeout=PATIENCE_S)
