"""What stands around a purchase, as `app/guards/` has it: a generator for each guard, which returns the outcome."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import ceil

from loadtest.simulate.locks import Cohort, Mutex, cohort_of
from loadtest.simulate.machine import CANCELLED, LEAD, LOCK_TIMEOUT, TURN, Steps
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
    rush, cohort, queue, entry = instance.rush, cohort_of(instance), instance.commits, instance.ticket(began)
    how = yield from queue.join(entry)
    if how != LEAD:
        return how
    how = yield from cohort.acquire(began)
    entered = rush.env.now
    if how != TURN:
        queue.resign(entry)
        return how
    group = queue.take()
    queue.resign(entry)
    outcomes = yield from instance.trip(lambda: [rush.sell() for _ in group])
    queue.settle(group, outcomes)
    if SOLD_OUT in outcomes:
        instance.known = entered
    yield from cohort.release()
    return outcomes[0]


def etcd_sharded(instance: SimulatedInstance, began: float) -> Steps:
    """One script for those that wait at a shard; where it is empty, one thread moves items there under the lock."""
    shard = instance.shards[instance.rush.random.randrange(len(instance.shards))]
    entry = instance.ticket(began)
    how = yield from shard.queue.join(entry)
    if how != LEAD:
        return how
    outcome = yield from _sell(instance, shard)
    while not outcome:
        outcome = (yield from _fill(instance, shard, began)) or (yield from _sell(instance, shard))
    shard.queue.resign(entry)
    return outcome


def _sell(instance: SimulatedInstance, shard: SimulatedShard) -> Steps:
    """What comes of the first that waits, nothing if the shard is empty; SOLD_OUT if all are known to be."""
    rush, number, group = instance.rush, shard.number, shard.queue.take()

    def script() -> list[str]:
        sold = min(rush.shards[number], len(group))
        rush.shards[number] -= sold
        rest = "" if instance.known is None else SOLD_OUT
        return [rush.sell() for _ in range(sold)] + [rest] * (len(group) - sold)

    outcomes = yield from instance.trip(script, number)
    shard.empty = "" in outcomes
    shard.queue.settle(group, outcomes)
    return outcomes[0]


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
            wanted = len(each.queue)
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
