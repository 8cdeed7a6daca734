"""The board in a rush: smooth while it is locked, true at its end, and back by itself after an interruption."""

from __future__ import annotations

import pytest

from loadtest.stack.stack import Stack
from tests.browser.conftest import Look
from tests.support.looking import Looker
from tests.support.shops import Sales
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

STOCK, BUYERS, HOLD_MS = 120, 200, 20
PER_SECOND = 2
# The colour of each instance in its row, and in timeline and queue.
COLOURS = """() => ["#instances tr .key", "#timeline .bars, #waiters li"].map((selector) =>
  [...document.querySelectorAll(selector)].map((node) => [
    node.dataset.instance ?? node.closest("[title]").title, node.getAttribute("class").match(/instance-[0-9]/)[0]]))"""
# Keeps what the live region has said.
HEAR = """() => {
  const region = document.getElementById("live-region");
  window.heard = [];
  const hear = new MutationObserver(() => heard.push(region.textContent));
  hear.observe(region, { childList: true, characterData: true, subtree: true });
}"""


def assert_true(looker: Looker, sales: Sales) -> None:
    """At the end, the page shows what an instance answers and what the ledger has."""
    stock, ledger = sales.stock(), sales.ledger()
    looker.wait_figure("sold", ledger.total())
    looker.wait_text("#queue-note", "^$")
    assert looker.figure("sold") == stock["orders"] == ledger.total()
    assert looker.figure("counter") == stock["stock"]
    assert looker.text("#word") == stock["verdict"]
    assert {name: sold for name, sold in looker.instances().items() if sold} == dict(ledger)
    squares = [looker(f"#stock rect.{kind}").count() for kind in ("sold", "left", "over")]
    assert squares == [ledger.total(), STOCK - ledger.total(), 0]


def test_numbers_run_while_every_thread_waits(look: Look, sales: Sales) -> None:
    """In a locked rush the board changes twice a second, moves nothing else, ends with the truth, and says it aloud."""
    looker = look()
    sales.reset(STOCK)
    looker.wait_figure("counter", STOCK)
    looker.page.evaluate(HEAR)
    sales.rush(stock=STOCK, buyers=BUYERS, hold_ms=HOLD_MS)
    looker.wait_figure("sold", 20)
    looker.page.evaluate("() => (witness.shifts.length = 0)")
    looker.wait_text("#rate-note", "^[0-9]+ sold; the last 30 s")
    sales.finish()
    looker.wait_figure("sold", STOCK)
    assert len(looker.changes("sold")) >= PER_SECOND * sales.selling_s()
    assert looker.shifted() < 0.01
    assert_true(looker, sales)
    assert looker.text("#word") == "EXACT"
    assert "never two at once" in looker.text("#timeline-note")
    looker.wait_text("#live-region", f"^EXACT\\. {STOCK} of {STOCK} items sold, under etcd\\. Nothing is left\\.")
    assert len(looker.page.evaluate("() => heard")) <= 4 + sales.selling_s() / 3


def told_by(looker: Looker) -> tuple[object, ...]:
    return looker.sections(), looker.runs(), looker.text("#timeline-note")


@pytest.mark.slow
def test_the_page_comes_back_by_itself(look: Look, sales: Sales, stack: Stack) -> None:
    """A page that is loaded again in a rush, on a phone, or whose board is killed and started, knows the whole run."""
    looker, reloaded = look(), look(viewport={"width": 390, "height": 844})
    looker.page.evaluate("() => (window.neverReloaded = true)")
    sales.rush(stock=STOCK, buyers=BUYERS, hold_ms=HOLD_MS)
    reloaded.wait_figure("sold", STOCK // 4)
    reloaded.open()
    looker.wait_figure("sold", STOCK // 3)
    assert stack.board is not None
    stack.board.kill()
    looker.page.wait_for_selector("#source[data-state=waiting]")
    stack.board.start()
    looker.page.wait_for_selector("#source[data-state=live]")
    sales.finish()
    later = look()
    for viewer in (looker, reloaded, later):
        assert_true(viewer, sales)
    wait_until(lambda: told_by(looker) == told_by(reloaded) == told_by(later) and later.sections() >= STOCK)
    for viewer in (looker, reloaded):
        assert [text for text in viewer.complaints if "net::ERR" not in text] == []
        viewer.complaints.clear()
    assert looker.page.evaluate("() => neverReloaded") is True


@pytest.mark.slow
def test_holder_and_waiters_are_shown(look: Look, sales: Sales) -> None:
    """The holder is named with token and lease, waiters in order; an instance has one colour everywhere."""
    looker = look()
    sales.rush(stock=STOCK, buyers=BUYERS, hold_ms=HOLD_MS)
    holder = "instance-[0-9]+ holds.*token [0-9]+.*lease: [0-9]+ s of [0-9]+ s left"
    looker.wait_text(".queue", f"{holder}.*#[0-9]+.*more in line · [0-9]+ buyers in line outside")
    tokens = looker.page.evaluate(
        "() => [...document.querySelectorAll('#waiters li')].map((each) => Number(each.dataset.key))"
    )
    assert tokens == sorted(tokens)
    looker.page.wait_for_function("() => document.querySelectorAll('#timeline .bars').length > 1")
    assert float(looker("#holder .meter i").evaluate("bar => parseFloat(bar.style.width)")) > 0
    rows, others = looker.page.evaluate(COLOURS)
    assert {tuple(pair) for pair in others} == {tuple(pair) for pair in rows}
    sales.finish()
    looker.wait_text("#holder .who", "The etcd lock is free")
