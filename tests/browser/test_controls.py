"""Each control of the board, used from the page alone."""

from __future__ import annotations

import pytest

from loadtest.stack.apps import LocustPage
from loadtest.stack.control import state_of
from loadtest.stack.stack import Stack
from tests.browser.conftest import Look
from tests.support.looking import Looker
from tests.support.selling import Sales
from tests.support.waiting import wait_until

PATIENCE_S = 60.0


def test_what_can_be_done_without_locust(look: Look, sales: Sales) -> None:
    """The page names the command that starts Locust; it says how long a think time makes the sale; a reset is done."""
    sales.buy("redis-lua")
    looker = look()
    fill_in(looker, hold_ms=100)
    looker.page.wait_for_selector("#no-locust:visible")
    assert ("make up" in looker.text("#no-locust"), looker("#start").is_disabled()) == (True, True)
    looker.wait_text("#foreseen", "^Under a lock, 300 sales in a row take at least 30.0 s. $")
    looker.page.fill("#rush-form [name=stock]", "900")
    looker.page.fill("#rush-form [name=buyers]", "800")
    looker.wait_text("#foreseen", "80.0 s. A buyer waits at most 60 s: after about 600 sales the others give up")
    looker.page.fill("#reset-form [name=stock]", "42")
    looker.page.click("#reset-form button")
    looker.wait_text("#said", "The sale begins again with a stock of 42")
    looker.wait_text("#word", "42 items for sale")
    assert (sales.stock()["initial"], sales.stock()["orders"]) == (42, 0)


def fill_in(looker: Looker, **fields: int) -> None:
    """The form of a rush under etcd."""
    looker.page.click("#toggle-controls")
    looker.page.wait_for_selector("#controls:visible")
    looker.page.select_option("#rush-form [name=guards]", "etcd")
    for name, value in fields.items():
        looker.page.fill(f"#rush-form [name={name}]", str(value))


def test_a_rush_is_started_with_its_think_time(look: Look, sales: Sales, locust: LocustPage) -> None:
    """Guard, buyers, items and the dial reach Locust; no button can disturb the rush, and its verdict is shown."""
    looker = look()
    fill_in(looker, buyers=80, stock=60)
    looker.page.locator("#rush-form [name=hold_ms]").focus()
    looker.page.keyboard.press("End")
    assert looker.text(".dial output") == "100 ms"
    looker.page.click("#start:enabled")
    looker.wait_text("#said", "The buyers come, under etcd")
    for button in ("#start", "#reset"):
        looker.page.wait_for_selector(f"{button}:disabled[title^='A rush is running: ']")
    looker.wait_figure("sold", 60)
    looker.wait_text("#word", "^EXACT$")
    assert looker.figure("sold") == 60 == sales.ledger().total()
    assert sales.selling_s() >= 59 * 0.100
    for button in ("#start", "#reset"):
        looker.page.wait_for_selector(f"{button}:enabled[title='']")
    assert looker("#no-locust").is_hidden()


def test_one_click_rushes(look: Look, sales: Sales, locust: LocustPage) -> None:
    """Without a form to fill in: a sale without a lock, and then one with it; each can be opened, and has a slider."""
    looker = look()
    looker.page.click("#start:enabled")
    looker.page.wait_for_selector("#runs tr.current[data-tone=exact] button:text-is('etcd')")
    looker.page.wait_for_selector("#start:enabled")
    looker.wait_run("etcd", 300)
    sold, verdict = looker.runs()["none"]
    assert (looker.runs()["etcd"][1], verdict) == ("EXACT", f"OVERSOLD by {int(sold) - 300}")
    looker.page.click("#runs button:text-is('none')")
    looker.wait_text("#word", verdict)
    looker.wait_text("#timeline-note", "not alone")
    looker.page.wait_for_selector("#runs tr.current[data-key=none]")
    for key, word in (("Home", "300 items for sale"), ("End", verdict)):
        looker("#scrub").press(key)
        looker.wait_text("#word", word)
    looker.page.click("#close-record")
    looker.wait_text("#word", "EXACT")


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
    assert shown in looker.text(rows[0])
    assert state_of(disturbed) == state
    looker.page.wait_for_selector(f"{rows[1]}[data-state=up]")
    looker.page.click(f"{rows[0]} button:text-is('{undo}'):visible")
    looker.page.wait_for_selector(f"{rows[0]}[data-state=up]")
    assert state_of(disturbed) == "running"
    sales.buy("redis-lua", buyers=2)
    wait_until(lambda: looker.instances()[disturbed.name] == 1, timeout=PATIENCE_S)
