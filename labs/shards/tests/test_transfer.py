"""Items that move between slots: none is lost, none is doubled, and "sold out" is true, whatever dies or comes late."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest
import redis
from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from redis.client import Pipeline

from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import FencedOff, InDoubt, SaleLost, SaleReset
from app.sales.sale import Sale
from labs.shards.opening import Places
from labs.shards.shards import ShardedStock
from labs.shards.state import ItemState, SlotCount, state_of
from labs.shards.transfer import Transfers
from tests.support.shops import section_of

Now = Callable[[], ItemState]


@pytest.fixture
def places(stock: ShardedStock) -> Places:
    return stock.places


@pytest.fixture(params=["one node", "a node each"])
def nodes(request: pytest.FixtureRequest, sale: Sale, stock: ShardedStock, other: ShardedStock) -> str:
    """Slots on one node are looked at and credited in one step; those of a cluster one after the other."""
    if request.param != "one node":
        pool = sale.client.connection_pool
        for slots in (stock.places.slots, other.places.slots):
            slots[:] = [each._replace(client=redis.Redis(connection_pool=pool)) for each in slots]
    return str(request.param)


def sells(stock: ShardedStock, number: int) -> bool:
    (result,) = stock.sell(stock.shards[number], [section_of(Purchase("ada", "etcd-sharded"))])
    return isinstance(result, Receipt) and result.order is not None


@pytest.fixture
def now(sale: Sale, places: Places) -> Callable[[], ItemState]:
    """All slots at this moment; every item is in one place, and every reader sees so."""

    def now() -> ItemState:
        found, seen = state_of(places), sale.snapshot()
        assert found.orders + found.unsold == seen.initial
        assert (seen.orders, seen.stock) == (found.orders, found.unsold)
        return found

    return now


class Died(BaseException):
    """The end of a process."""


def dying(command: int, answered: bool, patch: pytest.MonkeyPatch, end: BaseException | None = None) -> None:
    """Let the thread that moves items die, or meet that error, before this command, or instead of its answer."""
    sent = itertools.count(1)

    def of(original: Callable[..., Any]) -> Callable[..., Any]:
        def send_or_die(*args: Any, **options: Any) -> Any:
            dies = next(sent) == command
            answer = original(*args, **options) if answered or not dies else None
            if dies:
                raise end or Died
            return answer

        return send_or_die

    patch.setattr(redis.Redis, "execute_command", of(redis.Redis.execute_command))
    patch.setattr(Pipeline, "execute", of(Pipeline.execute))


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("step", ["debit", "credit", "settle"])
def test_the_next_holder_finishes_what_a_dead_one_began(
    places: Places, now: Now, nodes: str, monkeypatch: pytest.MonkeyPatch, step: str, answered: bool
) -> None:
    """Wherever its author died, a transfer arrives once, and the author's own late steps are refused."""
    late, together = Transfers(places, 5), nodes == "one node"
    assert Transfers(places, 4).refill({1: 1})
    before = now()
    with monkeypatch.context() as patch:
        dying({"debit": 1, "credit": 2, "settle": 3 if together else 4}[step], answered, patch)
        with pytest.raises(Died):
            late.refill({2: 1, 3: 1})
    taken, arrived = step != "debit" or answered, step == "settle" or (step == "credit" and answered)
    came = 0 if not arrived else 1 if step == "credit" and not together else 2
    assert (now().in_transit, now().shards[2].stock) == (2 * taken - came, arrived)
    assert Transfers(places, 6).refill({0: 1})
    assert (now().in_transit, now().shards[2].stock, now().shards[3].stock) == (0, taken, taken)
    with pytest.raises(FencedOff, match="token 5 is fenced off, 6 was here before"):
        late.refill({2: 1})
    assert before.unsold == now().unsold


@pytest.mark.parametrize("answered", [False, True])
def test_a_shard_that_fails_does_not_keep_the_others_waiting(
    places: Places, now: Now, nodes: str, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """Its items stay in the journal, those for another node arrive; the next holder finishes, and doubles nothing."""
    assert Transfers(places, 1).refill({1: 1})  # so that Redis knows the scripts
    with monkeypatch.context() as patch:
        dying(2, answered, patch, redis.ConnectionError("shard 2"))
        with pytest.raises(redis.ConnectionError, match="shard 2"):
            Transfers(places, 2).refill({2: 1, 3: 1})
    here = 0 if nodes == "one node" else 1  # shard 3 gets its item
    if answered:
        assert [shard.stock for shard in now().shards] == [0, 2, 1, 1]
    else:
        assert [shard.stock for shard in now().shards] == [0, 2, 0, here]
    treasury = places.slots[0]
    assert treasury.client.hlen(treasury.keys.transfers) == 2 - here
    assert Transfers(places, 3).refill({0: 1})
    assert [shard.stock for shard in now().shards] == [1, 2, 1, 1]


class Holder(greenlet):  # type: ignore[misc]
    """A holder of the mutex that stops before each command, and may never go on."""

    def __init__(self, places: Places, token: int, *shards: int) -> None:
        super().__init__(self._refill)
        self._transfers = Transfers(places, token)
        self._shards = shards
        self.found_nothing = ""  # or the generation in which it has
        self.fault = ""  # of the next command: it does not come to Redis, or its answer is lost

    def fail(self, fault: str) -> None:
        if self.fault == fault:
            self.fault = ""
            raise redis.ConnectionError(fault)

    def _refill(self) -> None:
        with suppress(FencedOff, SaleReset, redis.ConnectionError):
            if not self._transfers.refill(dict.fromkeys(self._shards, 2)):
                self.found_nothing = self._transfers.generation


def stop_before_commands(patch: pytest.MonkeyPatch) -> None:
    """A holder sends a command, or several in one step, after it was resumed once more."""

    def stopping(original: Callable[..., Any]) -> Callable[..., Any]:
        def stop_and_send(*args: Any, **options: Any) -> Any:
            holder = getcurrent()
            if not isinstance(holder, Holder):
                return original(*args, **options)
            assert holder.parent is not None
            holder.parent.switch()
            holder.fail("unsent")
            answer = original(*args, **options)
            holder.fail("unheard")
            return answer

        return stop_and_send

    patch.setattr(redis.Redis, "execute_command", stopping(redis.Redis.execute_command))
    patch.setattr(Pipeline, "execute", stopping(Pipeline.execute))


STEPS = st.tuples(st.sampled_from(["begin", *["resume"] * 4, "sell", "unsent", "unheard", "reset"]), st.integers(0, 14))


@pytest.mark.timeout(300)  # sixty examples of up to 120 steps, each a trip to Redis
@pytest.mark.slow
@pytest.mark.usefixtures("nodes")
@examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=120), st.integers(0, 12))
def test_no_interleaving_loses_an_item_or_is_sold_out_too_early(
    sale: Sale, stock: ShardedStock, other: ShardedStock, now: Now, steps: list[tuple[str, int]], items: int
) -> None:
    """Holders of two instances are paused or killed, slots fail, the sale is reset: every item is in one place.

    And "sold out" is true for as long as the sale lasts.
    """
    sale.reset(items)
    holders, instances = list[Holder](), (stock, other)
    with pytest.MonkeyPatch.context() as patch:
        stop_before_commands(patch)
        for step, which in steps:
            if step == "sell":
                sells(instances[which % 2], which % 4)
            elif step == "reset":
                sale.reset(items)
            elif step == "begin":
                wanted = [number for number in range(4) if which + 1 >> number & 1]
                holders.append(Holder(instances[which % 2].places, len(holders) + 1, *wanted))
            elif holders:
                holder = holders[-1 - which % min(len(holders), 4)]
                if not holder.dead:
                    holder.fault = "" if step == "resume" else step
                    holder.switch()
            said = any(holder.found_nothing == sale.generation for holder in holders)
            assert now().unsold == 0 or not said
    last = Transfers(stock.places, 1000)
    for _ in range(100):
        if not sum(sells(stock, number) for number in range(4)) and not last.refill({0: 1}):
            break
    assert now().orders == items


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("source", ["treasury", "shard"])
def test_a_paused_holder_cannot_make_sold_out_a_lie(
    sale: Sale, stock: ShardedStock, now: Now, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The last item is on its way while the next holder looks: it is found in the journal, and brought to its shard."""
    sale.reset(1)
    places = stock.places
    if source == "shard":
        assert Transfers(places, 1).refill({0: 1})
    paused = Holder(places, 2, 2)
    stop_before_commands(monkeypatch)
    while not now().in_transit:
        assert not paused.dead
        paused.switch()
    assert Transfers(places, 3).refill({2: 1})
    paused.switch()
    assert (paused.dead, paused.found_nothing, now().in_transit) == (True, "", 0)
    assert [sells(stock, number) for number in range(4)] == [False, False, True, False]
    assert not Transfers(places, 4).refill({3: 1})


def test_items_go_where_they_are_asked_for(sale: Sale, stock: ShardedStock, places: Places, now: Now) -> None:
    """An eighth of the treasury at a time for four shards; then half of the richest shard; then nothing is left."""
    sale.reset(100)
    assert Transfers(places, 1).refill({3: 1, 0: 1})
    assert [each.stock for each in now().shards] == [11, 0, 0, 13]
    while sum(sells(stock, 3) for _ in range(13)) or now().shards[0].stock < 87:
        assert Transfers(places, 2).refill({0: 1})
    assert Transfers(places, 3).refill({2: 1, 0: 1, 1: 1})
    assert [each.stock for each in now().shards] == [21, 22, 44, 0]
    assert sum(sells(stock, number) for number in range(4) for _ in range(100)) == 87
    assert not Transfers(places, 4).refill({3: 1})


def test_shards_that_wait_get_items_together_unless_their_node_is_down(
    stock: ShardedStock, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as wait there; one that did not answer keeps them in its journal. A look forgets what was brought."""
    for number in range(4):
        assert not sells(stock, number)
        stock.shards[number].queue = Mock(__len__=lambda _, number=number: number)
    down = Mock(evalsha=Mock(side_effect=redis.ConnectionError))
    stock.shards[3].slot = stock.shards[3].slot._replace(client=down)
    with pytest.raises(InDoubt):
        sells(stock, 3)
    stock.refill(stock.shards[2], 1)
    assert [each.stock for each in now().shards] == [0, 1, 2, 0]
    assert [shard.brought.is_set() for shard in stock.shards] == [True] * 4
    assert not sells(stock, 0)
    assert not stock.shards[0].brought.is_set()  # or else the next wait would not be one


def test_a_reset_ends_what_was_on_its_way(
    sale: Sale, stock: ShardedStock, places: Places, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shard hears of the reset, yet its items are sold no more; a late holder brings none; the sale is whole."""
    assert Transfers(places, 1).refill({0: 1})
    assert sells(stock, 0)
    late = Holder(places, 2, 1)
    with monkeypatch.context() as patch:
        stop_before_commands(patch)
        while not now().in_transit:
            late.switch()
        sale.reset(7)
        while not late.dead:
            late.switch()
    assert now() == ItemState(SlotCount(7, 0), (SlotCount(0, 0),) * 4, 0)
    assert not sells(stock, 0)
    assert Transfers(places, 3).refill({0: 1})
    assert (sells(stock, 0), now().unsold) == (True, 6)


def test_a_shard_without_its_data_sells_nothing(
    sale: Sale, stock: ShardedStock, other: ShardedStock, places: Places
) -> None:
    """Neither does it get items; the others go on, and a reset heals it."""
    for number in (0, 1):
        assert Transfers(places, 1).refill({number: 1})
    sale.client.delete(*vars(places.slots[1].keys).values())
    assert not sells(stock, 0)
    for each in (stock, other):
        with pytest.raises(SaleLost):
            Transfers(each.places, 2).refill({0: 1})
    with pytest.raises(SaleLost):
        sale.snapshot()
    assert sells(stock, 1)
    sale.reset(1)
    assert sale.snapshot().stock == 1
