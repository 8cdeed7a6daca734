"""The guards that serve a whole instance with one hold: turns, groups, patience, drain, loss, and fairness."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask

from app import services
from app.guards import etcd_batch
from app.sales.purchase import DEFAULT_ITEM
from app.sales.sale import Sale
from loadtest.stack.servers import Etcd
from lock import Mutex, Turn
from tests.support.overtaking import answer_lost
from tests.support.waiting import wait_until

WAIT_S = 20.0  # far more than anything here takes
each_guard = pytest.mark.parametrize("guard", ["etcd-cohort", "etcd-batch"])
Answer = dict[str, Any]
Make = Callable[..., Flask]


@pytest.fixture
def may_write(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Who has his turn thinks until this is set."""
    event, ensure = threading.Event(), Turn.ensure

    def thoughtful(turn: Turn) -> None:
        event.wait(WAIT_S)
        ensure(turn)

    monkeypatch.setattr(Turn, "ensure", thoughtful)
    yield event
    event.set()


def buy(app: Flask, guard: str, *, key: str | None = None, **query: Any) -> Answer:
    """The answer to one purchase, with its status."""
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = app.test_client().post("/stock/reduce", query_string={"guard": guard, **query}, headers=headers)
    body: Answer = answer.get_json()
    return {**body, "status": answer.status_code}


def waiting(app: Flask, guard: str) -> int:
    """Buyers of this instance who wait for the lock or for others who do."""
    made = services.of(app)
    cohort = made.sessions._cohorts.get(DEFAULT_ITEM)
    in_cohort = len(cohort._waiters) if cohort else 0
    in_queue = len(made.shop.seller_of["etcd-batch"].queues[DEFAULT_ITEM])  # type: ignore[attr-defined]
    return in_queue if guard == "etcd-batch" else in_cohort


def queue_up(crowd: ThreadPoolExecutor, app: Flask, guard: str, **options: Any) -> Future[Answer]:
    """A buyer who waits when this returns."""
    before = waiting(app, guard)
    buyer = crowd.submit(buy, app, guard, **options)
    wait_until(lambda: waiting(app, guard) > before)
    return buyer


def queue_up_all(crowd: ThreadPoolExecutor, app: Flask, guard: str, count: int, **query: Any) -> list[Future[Answer]]:
    """Buyers 0, 1, ... who all wait when this returns, in this order."""
    return [queue_up(crowd, app, guard, buyer=str(number), **query) for number in range(count)]


def ledger(sale: Sale) -> list[dict[str, Any]]:
    """The entries of the ledger."""
    return [json.loads(entry) for entry in sale.client.lrange(sale.keys.orders, 0, -1)]


def has_read(sale: Sale) -> bool:
    """Whether a fenced purchase has read, so that its think time has begun."""
    return str(sale.client.get(sale.keys.fence)) != "0"


# Turns and groups


def test_every_turn_has_a_token_of_its_own(crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex) -> None:
    """Under etcd-cohort buyers who wait together are served under one hold, in order, each under the next turn."""
    with stranger.acquire(timeout=WAIT_S):
        buyers = queue_up_all(crowd, app, "etcd-cohort", 5)
    tokens = [buyer.result(WAIT_S)["token"] for buyer in buyers]
    assert tokens == [[tokens[0][0], turn] for turn in range(1, 6)]
    assert [(entry["buyer"], entry["token"]) for entry in ledger(sale)] == list(zip("01234", tokens, strict=True))


def test_who_waits_together_is_committed_together(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """Under etcd-batch buyers who wait together share one token, and the ledger has them in the order of the line."""
    with stranger.acquire(timeout=WAIT_S):
        buyers = queue_up_all(crowd, app, "etcd-batch", 6)
    answers = [buyer.result(WAIT_S) for buyer in buyers]
    assert [answer["stock"] for answer in answers] == [9, 8, 7, 6, 5, 4]
    assert len({json.dumps(answer["token"]) for answer in answers}) == 1
    assert [(entry["buyer"], entry["order"]) for entry in ledger(sale)] == [
        (str(number), answer["order"]) for number, answer in enumerate(answers)
    ]


def test_a_group_has_a_limit(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than the limit are committed at once; who comes after them leads the next group, under a higher token."""
    monkeypatch.setattr(etcd_batch, "MOST_AT_ONCE", 3)
    with stranger.acquire(timeout=WAIT_S):
        buyers = queue_up_all(crowd, app, "etcd-batch", 7)
    tokens = [buyer.result(WAIT_S)["token"] for buyer in buyers]
    assert tokens == sorted(tokens)
    assert list(Counter(map(json.dumps, tokens)).values()) == [3, 3, 1]
    assert [entry["token"] for entry in ledger(sale)] == tokens


def test_a_group_thinks_as_long_as_its_longest(crowd: ThreadPoolExecutor, app: Flask, stranger: Mutex) -> None:
    """Buyers of a group think at the same time, so all are inside until the last one has thought."""
    with stranger.acquire(timeout=WAIT_S):
        slow = queue_up_all(crowd, app, "etcd-batch", 9, hold_ms=200)
        quick = queue_up_all(crowd, app, "etcd-batch", 1, hold_ms=0)
    held = [buyer.result(WAIT_S)["held_ms"] for buyer in slow + quick]
    assert min(held) >= 200
    assert max(held) < 9 * 200  # and not one after the other


def test_the_last_item_and_what_comes_after_it_are_one_commit(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """A group that is larger than the stock is told so by its own commit: no further turn is needed."""
    sale.reset(2)
    with stranger.acquire(timeout=WAIT_S):
        buyers = queue_up_all(crowd, app, "etcd-batch", 5)
    answers = [buyer.result(WAIT_S) for buyer in buyers]
    assert [answer["outcome"] for answer in answers] == ["sold"] * 2 + ["sold_out"] * 3
    assert len({json.dumps(answer["token"]) for answer in answers}) == 1
    assert sale.snapshot().verdict == "EXACT"


def test_a_line_goes_on_when_a_cohort_is_woken(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """Both guards share the mutex; who sees the sale sold out under etcd-cohort ends no purchase under etcd-batch."""
    sale.reset(1)
    with stranger.acquire(timeout=WAIT_S):
        cohort = queue_up_all(crowd, app, "etcd-cohort", 2)
        line = queue_up_all(crowd, app, "etcd-batch", 3)
    assert [buyer.result(WAIT_S)["outcome"] for buyer in cohort] == ["sold", "sold_out"]
    assert [buyer.result(WAIT_S)["outcome"] for buyer in line] == ["sold_out"] * 3


# Patience and drain


@each_guard
def test_nobody_waits_longer_than_the_time_allows(
    crowd: ThreadPoolExecutor, app: Flask, make: Make, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """Buyers who wait in vain get lock_timeout, not one after the other, and leave neither key nor place."""
    impatient = make(instance="shop-b", lock_timeout=1.0)
    services.of(impatient).sessions.session()  # or its making would count
    with stranger.acquire(timeout=WAIT_S):
        buyers = [crowd.submit(buy, impatient, guard) for _ in range(6)]
        answers = [buyer.result(WAIT_S) for buyer in buyers]
        assert waiting(impatient, guard) == 0
        wait_until(lambda: len(stranger.contenders()) == 1)
    assert {answer["status"] for answer in answers} == {503}
    # Who comes to lead the line with no time left may not even learn who holds the lock.
    least = {"lock_timeout"} | ({"unavailable"} if guard == "etcd-batch" else set())
    assert "lock_timeout" in {answer["outcome"] for answer in answers} <= least
    assert any("stranger" in answer["detail"] for answer in answers)
    assert all(1000 <= answer["waited_ms"] < 6 * 1000 for answer in answers)
    assert ledger(sale) == []
    assert buy(app, guard)["outcome"] == "sold"


def test_a_leader_who_gives_up_passes_the_lead_on(
    crowd: ThreadPoolExecutor, app: Flask, stranger: Mutex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first in line loses patience, those behind him, who have more of it, get the lock."""
    cohort = services.of(app).sessions.cohort()
    lined_up = threading.Event()

    def impatient(*, timeout: float) -> Turn:
        monkeypatch.undo()
        lined_up.wait(WAIT_S)
        return cohort.acquire(timeout=1.0)

    monkeypatch.setattr(cohort, "acquire", impatient)
    with stranger.acquire(timeout=WAIT_S):
        first, *others = queue_up_all(crowd, app, "etcd-batch", 4)
        lined_up.set()
        assert first.result(WAIT_S)["outcome"] == "lock_timeout"
    assert {other.result(WAIT_S)["outcome"] for other in others} == {"sold"}


def test_a_drain_sends_away_who_waits_for_a_lock_of_his_own(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """Under etcd, too, who waits when the instance is told to stop is told to go elsewhere, and waits no more."""
    with stranger.acquire(timeout=WAIT_S):
        buyers = [crowd.submit(buy, app, "etcd") for _ in range(4)]
        wait_until(lambda: len(stranger.contenders()) == 5)
        services.of(app).drain()
        assert {buyer.result(5)["outcome"] for buyer in buyers} == {"unavailable"}
        wait_until(lambda: len(stranger.contenders()) == 1)
    assert ledger(sale) == []


@each_guard
def test_a_drain_sends_away_who_waits_in_etcd(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """When the instance is told to stop, everybody who waits is told to go elsewhere, at once and not one by one."""
    with stranger.acquire(timeout=WAIT_S):
        buyers = queue_up_all(crowd, app, guard, 6)
        services.of(app).drain()
        answers = [buyer.result(5) for buyer in buyers]
        assert {(answer["status"], answer["outcome"]) for answer in answers} == {(503, "unavailable")}
        assert all("another instance" in answer["detail"] and not answer["in_doubt"] for answer in answers)
        assert buy(app, guard)["outcome"] == "unavailable"
        wait_until(lambda: len(stranger.contenders()) == 1)
    assert ledger(sale) == []


@each_guard
def test_a_drain_does_not_wait_for_the_one_who_holds(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, may_write: threading.Event, guard: str
) -> None:
    """Who waits behind a buyer of the same instance is sent away while that one still thinks; that one buys."""
    holder = crowd.submit(buy, app, guard)
    wait_until(lambda: services.of(app).sessions.contenders() and waiting(app, guard) == 0)
    buyers = queue_up_all(crowd, app, guard, 4)
    services.of(app).drain()
    assert {buyer.result(WAIT_S)["outcome"] for buyer in buyers} == {"unavailable"}
    assert not holder.done()
    may_write.set()
    assert holder.result(WAIT_S)["outcome"] == "sold"
    assert len(ledger(sale)) == 1


# Loss


@each_guard
def test_a_lost_session_is_lost_for_all(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex, may_write: threading.Event, guard: str
) -> None:
    """If the lease is revoked while one thinks and others wait, nothing is written under it, and then sales go on."""
    session = services.of(app).sessions.session()
    holder = crowd.submit(buy, app, guard)
    wait_until(lambda: stranger.contenders() and waiting(app, guard) == 0)
    buyers = queue_up_all(crowd, app, guard, 3)
    stranger.session.client.revoke(session.lease_id)
    assert session.lost.wait(WAIT_S)
    may_write.set()
    answers = [buyer.result(WAIT_S) for buyer in [holder, *buyers]]
    assert answers[0]["outcome"] == "lock_lost"
    told_lost = [answer for answer in answers if answer["outcome"] == "lock_lost"]
    assert all("Nothing was written" in answer["detail"] for answer in told_lost)
    assert {answer["outcome"] for answer in answers} <= {"lock_lost", "sold"}
    assert len(ledger(sale)) == len(answers) - len(told_lost)
    assert buy(app, guard)["outcome"] == "sold"
    assert sale.snapshot().verdict == "EXACT"


def test_an_etcd_that_is_away_is_away_for_all(crowd: ThreadPoolExecutor, make: Make, fresh_etcd: Etcd) -> None:
    """Buyers in line share the failure of their leader: they do not wait out one deadline of etcd after the other."""
    app = make(etcd_endpoints=fresh_etcd.endpoint)
    services.of(app).sessions.ping(timeout=5)
    fresh_etcd.pause()
    answers = list(crowd.map(lambda number: buy(app, "etcd-batch", buyer=number), range(12)))
    fresh_etcd.resume()
    assert {(answer["status"], answer["outcome"], answer["in_doubt"]) for answer in answers} == {
        (503, "unavailable", False)
    }
    assert max(answer["waited_ms"] for answer in answers) < 8000  # twelve deadlines of two seconds would be 24
    assert buy(app, "etcd-batch")["outcome"] == "sold"


@each_guard
def test_an_overtaken_hold_is_fenced_off(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """A hold that was overtaken in Redis is refused there for everybody it serves, and nothing is written."""
    with stranger.acquire(timeout=WAIT_S) as hold:
        buyers = queue_up_all(crowd, app, guard, 3)
        sale.client.set(sale.keys.fence, f"{hold.token + 1000:020d}")
    answers = [buyer.result(WAIT_S) for buyer in buyers]
    assert {answer["outcome"] for answer in answers} == {"lock_lost"}
    assert all(f"{hold.token + 1000} was here before" in answer["detail"] for answer in answers)
    assert ledger(sale) == []


def test_a_lost_answer_leaves_the_whole_group_in_doubt(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """Each buyer of the group is told that the purchase may have been made, and finds it by the same key."""
    assert buy(app, "etcd-batch")["outcome"] == "sold"  # now Redis knows the script
    with answer_lost(b"EVALSHA"):
        with stranger.acquire(timeout=WAIT_S):
            buyers = [queue_up(crowd, app, "etcd-batch", key=f"k{n}", buyer=str(n)) for n in range(3)]
        answers = [buyer.result(WAIT_S) for buyer in buyers]
    assert {(answer["outcome"], answer["in_doubt"]) for answer in answers} == {("unavailable", True)}
    again = [buy(app, "etcd-batch", key=f"k{number}", buyer=str(number)) for number in range(3)]
    assert [entry["order"] for entry in ledger(sale)][1:] == [answer["order"] for answer in again]


def test_a_strangers_key_is_refused_to_its_sender_alone(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """In a group, the buyer with another buyer's key gets his 422 and the others their items."""
    buy(app, "etcd-batch", key="k", buyer="ada")
    with stranger.acquire(timeout=WAIT_S):
        buyers = queue_up_all(crowd, app, "etcd-batch", 1)
        thief = queue_up(crowd, app, "etcd-batch", key="k", buyer="eve")
        buyers += queue_up_all(crowd, app, "etcd-batch", 1)
    assert thief.result(WAIT_S)["status"] == 422
    assert [buyer.result(WAIT_S)["outcome"] for buyer in buyers] == ["sold", "sold"]
    assert len(ledger(sale)) == 3


# Fairness


@each_guard
def test_the_other_instance_waits_for_a_slice_and_no_longer(
    crowd: ThreadPoolExecutor, app: Flask, make: Make, sale: Sale, guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many buyers one instance has, the other's first is served after `slice` and one critical section.

    Each section takes 20 ms and a slice is 50 ms, so three or four of them fit in before the stranger.
    """
    monkeypatch.setattr(etcd_batch, "MOST_AT_ONCE", 1)
    other = make(instance="shop-b")
    services.of(other).sessions.session()
    sale.reset(100)
    stop = threading.Event()

    def keep_buying() -> None:
        while not stop.is_set():
            buy(app, guard, hold_ms=20)

    for _ in range(8):
        crowd.submit(keep_buying)
    try:
        wait_until(lambda: len(ledger(sale)) > 3)
        asked = crowd.submit(buy, other, guard, buyer="from afar")
        wait_until(lambda: len(services.of(other).sessions.contenders()) > 1 or asked.done())
        before = len(ledger(sale))
        answer = asked.result(WAIT_S)
    finally:
        stop.set()
    place = [entry["order"] for entry in ledger(sale)].index(answer["order"])
    assert place - before <= 6
