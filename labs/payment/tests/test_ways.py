"""Shop and provider when payments come late, answers are lost and processes die; real servers all through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from labs.payment.calls import Unanswered, call
from labs.payment.contract import PENDING, REFUNDED, SUCCEEDED, Outcome, Payment
from labs.payment.crowd import Crowd
from labs.payment.scenarios import FAULTS, expected, play_under
from labs.payment.screen import Judged, complaint
from labs.payment.stage import PaymentStack
from labs.payment.ways import WAYS
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


def test_a_charge_outlives_a_lost_answer_and_kill_9(stack: PaymentStack) -> None:
    """What was asked for is written down first: a retry gets the answer, and a pending charge has its end."""
    provider, lost, late = stack.client, Payment("provider/lost", "lost-answer"), "provider/late"
    with pytest.raises(Unanswered):
        provider.charge(lost)
    url = f"{stack.provider.url}/charges"
    with pytest.raises(Unanswered):  # it is the client that gives up here
        call("POST", url, {"card": "late"}, key=late, timeout=0.5)
    assert provider.find(late) == PENDING
    stack.provider.kill()
    stack.provider.start()
    assert provider.charge(lost)
    wait_until(lambda: provider.find(late) == SUCCEEDED)
