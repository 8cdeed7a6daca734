"""What stands around a purchase, as `app/guards/` has it: a generator for each guard, which returns the outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from math import ceil

from loadtest.simulate.locks import Cohort, Mutex, cohort_of
from loadtest.simulate.machine import CANCELLED, LEAD, LOCK_TIMEOUT, TURN, Steps, Ticket
from loadtest.simulate.rush import SOLD, SOLD_OUT, Buy, SimulatedInstance, SimulatedShard


def none(instance: SimulatedInstance, began: float) -> Steps:
    """Read and write, with nothing in between that keeps others out."""
    rush = instance.rush
    read = yield from instance.trip(lambda: rush.stock)
    if read <= 0:
        return SOLD_OUT
    yield from instance.trip(lambda: rush.write(read))
    return SOLD


def thread(instance: SimulatedInstance, began: float) -> Steps:
    """The same in a lock of the instance."""
    with instance.lock.request() as turn:
        yield turn
        return (yield from none(instance, began))


def redis_lua(instance: SimulatedInstance, began: float) -> Steps:
    """One script."""
    return (yield from instance.trip(instance.rush.sell))


def redis_lock(instance: SimulatedInstance, began: float) -> Steps:
    """A try every tenth of a second."""
    rush, settings = instance.rush, instance.rush.costs.settings
    while (yield from instance.trip(rush.take_lock)):
        if rush.env.now + settings["poll_s"] > began + settings["lock_timeout_s"]:
            return LOCK_TIMEOUT
        yield rush.env.timeout(settings["poll_s"])
    outcome = yield from none(instance, began)
    yield from instance.trip(partial(setattr, rush, "locked", False))
    return outcome


def redis_watch(instance: SimulatedInstance, began: float) -> Steps:
    """Write if nothing has changed since the read, or pause and begin again."""
    rush, settings, outcome = instance.rush, instance.rush.costs.settings, ""
    instance.trying += 1
    while not outcome:
        version = yield from instance.trip(lambda: rush.version)
        if (yield from instance.trip(lambda: rush.stock)) <= 0:
            outcome = yield from instance.trip(lambda: SOLD_OUT)  # UNWATCH
        elif (yield from instance.trip(partial(rush.sell_if, version))):
            outcome = SOLD
        else:
            longest = min(instance.trying * settings["watch_pause_s"], settings["watch_longest_s"])
            pause = rush.random.uniform(0, longest)
            if rush.env.now + pause > began + settings["lock_timeout_s"]:
                outcome = LOCK_TIMEOUT
            else:
                yield rush.env.timeout(pause)
    instance.trying -= 1
    return outcome


def etcd(instance: SimulatedInstance, began: float) -> Steps:
    """A key in the queue for each purchase."""
    return (yield from _locked(instance, Mutex(instance), began))


def etcd_cohort(instance: SimulatedInstance, began: float) -> Steps:
    """A key for each instance, which hands the lock along inside."""
    return (yield from _locked(instance, cohort_of(instance), began))


def _locked(instance: SimulatedInstance, mutex: Mutex | Cohort, began: float) -> Steps:
    """Read and write while the lock is held; if nothing is left, wake those who wait."""
    how = CANCELLED
    while how == CANCELLED:
        if (yield from instance.told(began)):
            return SOLD_OUT
        how = yield from mutex.acquire(began)
    if how != TURN:
        return how
    entered = instance.rush.env.now
    outcome = yield from none(instance, began)
    if outcome == SOLD_OUT:
        instance.known = entered
        instance.cancel()
    yield from mutex.release()
    return outcome


def etcd_batch(instance: SimulatedInstance, began: float) -> Steps:
    """The holder of the cohort's turn sells to all that wait in its instance, by one script."""
    if (yield from instance.told(began)):
        return SOLD_OUT
    rush, cohort, entries, entry = instance.rush, cohort_of(instance), instance.entries, instance.ticket(began)
    entries.append(entry)
    _appoint_first(entries)
    how = yield entry.turn
    if how == LOCK_TIMEOUT:
        entries.remove(entry)
        _appoint_first(entries)
    if how != LEAD:
        return how
    how = yield from cohort.acquire(began)
    entered = rush.env.now
    most = int(rush.costs.settings["group"]) if how == TURN else 1  # a leader whose time is up leaves alone
    group = [entries.popleft() for _ in range(min(len(entries), most))]
    for each in group:
        each.told = True
    _appoint_first(entries)
    if how != TURN:
        return how
    outcomes = yield from instance.trip(lambda: [rush.sell() for _ in group])
    for each, outcome in zip(group, outcomes, strict=True):
        each.end(outcome)
    if SOLD_OUT in outcomes:
        instance.known = entered
    yield from cohort.release()
    return outcomes[0]


def _appoint_first(entries: deque[Ticket]) -> None:
    if entries:
        entries[0].end(LEAD)


def etcd_sharded(instance: SimulatedInstance, began: float) -> Steps:
    """One script on a buyer's shard; where it is empty, one thread of the instance moves items there under the lock."""
    shard = instance.shards[instance.rush.random.randrange(len(instance.shards))]
    if not shard.line.count and (outcome := (yield from _sell(instance, shard))):
        return outcome
    shard.waiting += 1
    with shard.line.request() as turn:
        yield turn
        outcome = ""
        while not outcome:
            known = instance.known is not None and began < instance.known
            outcome = SOLD_OUT if known else (yield from _sell(instance, shard))
            if not outcome:
                outcome = yield from _fill(instance, shard, began)
    shard.waiting -= 1
    return outcome


def _sell(instance: SimulatedInstance, shard: SimulatedShard) -> Steps:
    """SOLD, SOLD_OUT if nothing is known to be left anywhere, or nothing if the shard is empty."""
    rush, number = instance.rush, shard.number

    def script() -> str:
        if rush.shards[number]:
            rush.shards[number] -= 1
            return rush.sell()
        return "" if instance.known is None else SOLD_OUT

    outcome = yield from instance.trip(script, number)
    shard.empty = not outcome
    return outcome


def _fill(instance: SimulatedInstance, shard: SimulatedShard, began: float) -> Steps:
    """Move items to all shards that are empty, or wait for the thread that is about to."""
    env, settings = instance.rush.env, instance.rush.costs.settings
    if instance.filling:
        if env.now > began + settings["lock_timeout_s"]:
            return LOCK_TIMEOUT
        yield shard.brought | env.timeout(settings["shard_poll_s"])
        return ""
    instance.filling, cohort = True, cohort_of(instance)
    how = yield from cohort.acquire(began)
    if how == TURN:
        yield from _move(instance, [shard, *(each for each in instance.shards if each.empty and each is not shard)])
        yield from cohort.release()
        for each in instance.shards:
            each.bring()
    instance.filling = False
    return "" if how == TURN else how


def _move(instance: SimulatedInstance, empty: list[SimulatedShard]) -> Steps:
    """See `app/sales/transfer.py`: debit, credit and settle; if the treasury is empty, a look at every slot first."""
    rush, entered = instance.rush, instance.rush.env.now
    treasury = yield from instance.trip(lambda: rush.stock - sum(rush.shards))
    if treasury:
        for each in empty:
            wanted = each.waiting
            while wanted > 0 and treasury:
                part = ceil(treasury / (2 * len(rush.shards)))
                rush.shards[each.number] += part
                wanted, treasury = wanted - part, treasury - part
    else:
        yield from _trips(instance, instance.shards)
        if not any(rush.shards):
            instance.known = entered
            return
        richest = max(range(len(rush.shards)), key=lambda number: rush.shards[number])
        yield from instance.trip(node=richest)
        for each in empty:
            if not rush.shards[each.number]:
                part = ceil(rush.shards[richest] / 2)
                rush.shards[richest] -= part
                rush.shards[each.number] += part
    yield from _trips(instance, empty)  # the credits
    yield from instance.trip()


def _trips(instance: SimulatedInstance, shards: Iterable[SimulatedShard]) -> Steps:
    """One to each node that has some of these."""
    for node in {each.number % len(instance.rush.redis) for each in shards}:
        yield from instance.trip(node=node)


_ALL: list[Buy] = [none, thread, etcd, etcd_cohort, etcd_batch, etcd_sharded, redis_lock, redis_watch, redis_lua]
GUARDS = {guard.__name__.replace("_", "-"): guard for guard in _ALL} | {"etcd-unfenced": etcd}
