"""Shop and provider when payments come late, answers are lost and processes die; the judge and the shelf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from app.sales.redis_client import connect
from app.sales.refusals import FencedOff
from labs.payment.contract import DECLINED, PENDING, REFUNDED, SUCCEEDED, Order, Outcome, Payment
from labs.payment.crowd import Crowd
from labs.payment.judge import judge
from labs.payment.scenarios import FAULTS, expected, play_under
from labs.payment.screen import Judged, complaint
from labs.payment.shelf import Shelf
from labs.payment.stage import PaymentStack
from labs.payment.ways import WAYS
from loadtest.stack.servers import Redis
from tests.support.commands import finished
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaymentStack]:
    """Two shops, etcd, Redis and the provider; each sale has its own keys."""
    with PaymentStack(tmp_path_factory.mktemp("payment")) as stack:
        yield stack


@pytest.fixture
def stack(running: PaymentStack) -> PaymentStack:
    """Everything runs, whatever the test before has left."""
    running.heal()
    return running


@pytest.mark.parametrize("way", ["reserve", "reserve-checked"])
def test_a_late_payment_sells_an_item_twice_or_is_refunded(stack: PaymentStack, way: str) -> None:
    """The item went back and was sold to another buyer when the first payment succeeded."""

    def play(crowd: Crowd) -> None:
        crowd.send_next("late", stack.urls)
        wait_until(lambda: stack.client.find(f"{crowd.sale}buyer-1"))  # it has the item
        crowd.send_next("good", stack.urls)

    result = stack.sell(way, 1, play)
    late = [key for key in result.charges if key.endswith("buyer-1")]
    if way == "reserve":
        assert result.findings == {"paid_twice": 1}
        assert "and by buyer-1." in str(complaint(result))
    else:
        assert result.findings == {"exact": 0}
        assert [result.charges[key] for key in late] == [REFUNDED]
        assert complaint(result) is None


@pytest.mark.slow
@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "payment-kills"])
@pytest.mark.parametrize("way", WAYS)
def test_each_fault_shows_what_it_has_to(stack: PaymentStack, way: str, fault: str) -> None:
    """Money without an item, an item paid for twice, or an order for the buyer who never came back."""
    result = play_under(way, fault, stack, Random(1))
    assert Judged(result, expected(fault, way)).as_expected, result.findings
    has_order = any(order.payment.endswith("/victim") for order in result.orders)
    assert has_order is (way == "reserve-checked" or (way, fault) == ("reserve", "payment-pause"))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_both_ledgers_agree_after_twenty_runs_of_kills(stack: PaymentStack) -> None:
    """Whatever dies in whatever order, every payment ends as an order or as a refund."""
    for seed in range(20):
        assert play_under("reserve-checked", "payment-kills", stack, Random(seed)).findings == {"exact": 0}, seed


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("words", "lines"), [(["payment"], 3), (["faults", "payment"], 10)])
def test_the_commands_show_what_was_expected(tmp_path: Path, words: list[str], lines: int) -> None:
    """Three ways under slow, late and declined payments, and each fault under each way."""
    done = finished(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line for line in done.stdout.splitlines() if line.strip().startswith(tuple(WAYS)) and " item " not in line]
    assert len(shown) == lines
    assert "PAID TWICE" in done.stdout


@pytest.mark.parametrize("way", ["pay-inside", "reserve", "reserve-checked"])
def test_a_retry_pays_once_and_a_declined_card_leaves_the_item(stack: PaymentStack, way: str) -> None:
    """Two requests with one key are one order; a declined buyer is told, and the item goes to the next."""
    told = list[Outcome | None]()

    def play(crowd: Crowd) -> None:
        for key, card in (("eve", "declined"), ("ada", "good"), ("ada", "good"), ("bob", "good")):
            crowd.send(crowd.sale + key, card, stack.urls).join()
            told.append(crowd.outcomes[crowd.sale + key])

    result = stack.sell(way, 1, play)
    assert told == [Outcome.DECLINED, Outcome.PAID, Outcome.PAID, Outcome.SOLD_OUT]
    assert [order.payment.partition("/")[2] for order in result.orders] == ["ada"]
    assert result.findings == {"exact": 0}


# The judge shows each thing that can be wrong; the shelf refuses what would be: faults too rare to be waited for.


ADA, BOB = Order("ada", "1"), Order("bob", "2")
PAID = {"ada": SUCCEEDED, "bob": SUCCEEDED}


JUDGED: list[tuple[list[str], list[Order], dict[str, str], dict[str, int]]] = [
    ([], [ADA, BOB], PAID, {"exact": 0}),
    ([], [ADA, BOB], PAID | {"eve": DECLINED, "cleo": REFUNDED, "dan": PENDING}, {"exact": 0}),
    ([], [ADA, BOB, Order("eve", "1")], PAID | {"eve": SUCCEEDED}, {"paid_twice": 1}),
    (["1"], [ADA, BOB], PAID, {"paid_twice": 1}),
    ([], [ADA, BOB], PAID | {"eve": SUCCEEDED}, {"money_without_item": 1}),
    ([], [ADA, BOB], {"ada": SUCCEEDED, "bob": REFUNDED}, {"item_without_money": 1}),
    ([], [ADA, BOB], {"ada": SUCCEEDED}, {"item_without_money": 1}),
    ([], [ADA, Order("ada", "2")], {"ada": SUCCEEDED}, {"item_without_money": 1}),
    ([], [ADA, ADA, BOB], PAID, {"item_without_money": 1}),
    ([], [ADA], {"ada": SUCCEEDED}, {"items_lost": 1}),
    (["2"], [ADA], {"ada": SUCCEEDED}, {"items_lost": 1}),
]


def test_each_flaw_is_counted_alone() -> None:
    """Two items: one payment for each is exact; what is given back or declined is no money.

    An item that nobody wants may stay on the shelf. Items that buyers who gave up have left are a slow machine's
    fault, which hides no flaw.
    """
    for left, orders, charges, found in JUDGED:
        assert judge(2, left, orders, charges, unserved=1, gave_up=0) == found
    assert judge(2, ["2"], [ADA], {"ada": SUCCEEDED}, unserved=0, gave_up=0) == {"exact": 0}
    assert judge(2, ["2"], [ADA], {"ada": SUCCEEDED}, unserved=1, gave_up=1) == {"too_slow": 1}
    assert judge(2, ["2"], [ADA], PAID, unserved=1, gave_up=1) == {"money_without_item": 1, "items_lost": 1}


# What the shelf refuses, and that a step taken twice is one step: faults that come too seldom to be waited for.


EVE, DAN = Payment("eve", "good"), Payment("dan", "good")


@pytest.fixture
def shelf(redis_server: Redis) -> Iterator[Shelf]:
    """A shelf with one item."""
    with closing(connect(redis_server.url, connections=1)) as client:
        client.flushall()
        shelf = Shelf(client, "shelf", "reserve-checked")
        shelf.open(1)
        yield shelf


def test_a_lower_token_neither_reads_nor_writes(shelf: Shelf) -> None:
    """Reading is enough to refuse all tokens before, and a write that is repeated sells once."""
    assert shelf.read(DAN, fence=9) == "1"
    assert shelf.read(EVE, fence=10) == "1"
    with pytest.raises(FencedOff):
        shelf.read(DAN, fence=9)
    with pytest.raises(FencedOff):
        shelf.write(DAN, "1", fence=9)
    for _ in range(2):
        shelf.write(EVE, "1", fence=10)
    assert (shelf.read(EVE, fence=10), shelf.read(DAN, fence=10)) == ("1", None)
    assert shelf.read_all() == (0, [], [Order("eve", "1")])


def test_a_reservation_that_has_ended_is_no_order(shelf: Shelf) -> None:
    """Its item goes back once, its money is looked after; only a confirmation that does not check sells it again."""
    assert shelf.reserve(EVE) is None
    assert shelf.reserve(EVE) is None  # a retry
    assert shelf.reserve(DAN) is Outcome.RESERVED
    for _ in range(2):
        shelf.give_back(EVE.key)
    assert (shelf.read_all(), shelf.unsettled()) == ((0, ["1"], []), ["eve"])
    assert shelf.reserve(EVE) is Outcome.TOO_LATE
    assert shelf.reserve(DAN) is None
    assert not shelf.confirm(EVE.key, checked=True)
    assert shelf.read_all() == (1, [], [])
    assert shelf.confirm(EVE.key, checked=False)  # as `reserve` does: the item of another buyer
    assert shelf.read_all() == (1, [], [Order("eve", "1")])
