"""Items that move between slots: none is lost, none is doubled, and "sold out" is true, whatever dies or comes late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis
from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app.sales.purchase import Purchase
from app.sales.refusals import FencedOff, SaleLost, SaleReset
from app.sales.sale import Sale
from app.sales.shards import ShardedStock
from app.sales.snapshot import Snapshot, read_slots
from app.sales.transfer import Transfers

ITEM = "1"


@pytest.fixture
def stock(sale: Sale) -> ShardedStock:
    """Ten items in the treasury, for four shards."""
    return ShardedStock(sale, ITEM, instance="shop-a")


def sells(stock: ShardedStock, number: int) -> bool:
    """Whether a shard sells one item."""
    receipt = stock.shards[number].sell(Purchase("ada", "etcd-sharded"))
    return receipt is not None and receipt.order is not None


def now(sale: Sale) -> Snapshot:
    """All slots; every item is in one place."""
    found = Snapshot.of(read_slots(sale.slots_of[ITEM]))
    assert found.orders + found.unsold == found.initial
    return found


def dying(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread that moves items die before that command, or after it has lost the answer to it."""
    name, _, lost = step.partition(", ")
    original: Callable[..., Any] = redis.Redis.execute_command
    commands = {"debit": ["evalsha"], "credit": ["evalsha"] * 2, "settle": ["evalsha", "evalsha", "hdel"]}[name]

    def die(self: redis.Redis, *args: Any, **options: Any) -> Any:
        commands.pop()
        if commands:
            return original(self, *args, **options)
        if lost:
            original(self, *args, **options)
        raise redis.ConnectionError("died")

    monkeypatch.setattr(redis.Redis, "execute_command", die)


@pytest.mark.parametrize("how", ["", ", answered"])
@pytest.mark.parametrize("name", ["debit", "credit", "settle"])
def test_the_next_holder_finishes_what_a_dead_one_began(
    sale: Sale, stock: ShardedStock, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    """Wherever its author died, a transfer arrives once, and the author's own late steps are refused."""
    late = Transfers(sale, ITEM, 5)
    assert Transfers(sale, ITEM, 4).refill(1)
    before, step = now(sale), name + how
    with monkeypatch.context() as patch:
        dying(step, patch)
        with pytest.raises(redis.ConnectionError):
            late.refill(2)
    taken, arrived = step != "debit", step not in ("debit", "debit, answered", "credit")
    assert now(sale).in_transit == (1 if taken and not arrived else 0)
    assert now(sale).shards[2].stock == arrived
    assert Transfers(sale, ITEM, 6).refill(0)
    assert (now(sale).in_transit, now(sale).shards[2].stock) == (0, taken)
    with pytest.raises(FencedOff, match="token 5 is fenced off, 6 was here before"):
        late.refill(2)
    assert before.stock == now(sale).stock


class Holder(greenlet):  # type: ignore[misc]
    """A holder of the mutex that stops before each command, and may never go on."""

    def __init__(self, sale: Sale, token: int, shard: int) -> None:
        super().__init__(self._refill)
        self._transfers = Transfers(sale, ITEM, token)
        self._shard = shard
        self.found_nothing = False

    def _refill(self) -> None:
        with suppress(FencedOff):
            self.found_nothing = not self._transfers.refill(self._shard)


def stopping(original: Callable[..., Any]) -> Callable[..., Any]:
    """A command that a holder sends after it was resumed once more."""

    def stop_and_send(*args: Any, **options: Any) -> Any:
        holder = getcurrent()
        if isinstance(holder, Holder):
            assert holder.parent is not None
            holder.parent.switch()
        return original(*args, **options)

    return stop_and_send


STEPS = st.tuples(st.sampled_from(["begin", "resume", "resume", "resume", "sell"]), st.integers(0, 7))


@examples(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=120), st.integers(0, 12))
def test_no_interleaving_loses_an_item_or_is_sold_out_too_early(
    sale: Sale, stock: ShardedStock, steps: list[tuple[str, int]], items: int
) -> None:
    """Holders are paused and killed anywhere: sold + stock + in transit = initial, and "sold out" is true."""
    sale.reset(items)
    holders = list[Holder]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Redis, "execute_command", stopping(redis.Redis.execute_command))
        for step, which in steps:
            if step == "sell":
                sells(stock, which % 4)
            elif step == "begin":
                holders.append(Holder(sale, len(holders) + 1, which % 4))
            elif holders:
                holder = holders[-1 - which % min(len(holders), 4)]
                if not holder.dead:
                    holder.switch()
            said = any(holder.found_nothing for holder in holders)
            assert now(sale).unsold == 0 or not said
    last = Transfers(sale, ITEM, 1000)
    for _ in range(100):
        if not sum(sells(stock, number) for number in range(4)) and not last.refill(0):
            break
    assert now(sale).orders == items


def test_a_paused_holder_cannot_make_sold_out_a_lie(
    sale: Sale, stock: ShardedStock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last item is on its way while the next holder looks: it is found in the journal, and brought to its shard."""
    sale.reset(1)
    paused = Holder(sale, 1, 2)
    monkeypatch.setattr(redis.Redis, "execute_command", stopping(redis.Redis.execute_command))
    paused.switch()
    paused.switch()
    assert now(sale).in_transit == 1
    assert Transfers(sale, ITEM, 2).refill(0)
    paused.switch()
    assert (paused.dead, paused.found_nothing, now(sale).in_transit) == (True, False, 0)
    assert [sells(stock, number) for number in range(4)] == [False, False, True, False]
    assert not Transfers(sale, ITEM, 3).refill(0)


def test_items_go_where_they_are_asked_for(sale: Sale, stock: ShardedStock) -> None:
    """An eighth of the treasury at a time for four shards; then half of the richest shard; then nothing is left."""
    sale.reset(100)
    for token in range(1, 50):
        Transfers(sale, ITEM, token).refill(0)
        if now(sale).shards[0].stock == 100:
            break
    assert token <= 30
    assert [Transfers(sale, ITEM, token).refill(number) for number in (1, 2)] == [True, True]
    assert [each.stock for each in now(sale).shards] == [25, 50, 25, 0]
    assert sum(sells(stock, number) for number in range(4) for _ in range(100)) == 100
    assert not Transfers(sale, ITEM, token).refill(3)


def test_a_reset_ends_what_was_on_its_way(sale: Sale, stock: ShardedStock) -> None:
    """A holder and a buyer of the sale before meet the new generation; the new sale is whole."""
    assert Transfers(sale, ITEM, 1).refill(0)
    late = Transfers(sale, ITEM, 2)
    sale.reset(7)
    with pytest.raises(SaleReset):
        late.refill(1)
    assert now(sale) == Snapshot(initial=7, stock=7, lucky=0, orders=0)
    assert [each.stock for each in now(sale).shards] == [0] * 4


def test_a_shard_without_its_data_sells_nothing(sale: Sale, stock: ShardedStock) -> None:
    """Neither does it get items; the others go on, and a reset heals it."""
    for number in (0, 1):
        assert Transfers(sale, ITEM, 1).refill(number)
    sale.client.delete(*vars(sale.slots_of[ITEM][1].keys).values())
    for call in (lambda: sells(stock, 0), lambda: Transfers(sale, ITEM, 2).refill(0), sale.snapshot):
        with pytest.raises(SaleLost):
            call()
    assert sells(stock, 1)
    sale.reset(1)
    assert sale.snapshot().stock == 1
