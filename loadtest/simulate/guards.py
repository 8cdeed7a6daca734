"""What stands around a purchase, as `app/guards/` has it: a generator for each guard, which returns the outcome."""

from __future__ import annotations

from collections import deque
from functools import partial
from math import ceil

from loadtest.simulate.machine import CANCELLED, LEAD, LOCK_TIMEOUT, TURN, Steps, Ticket
from loadtest.simulate.rush import SOLD, SOLD_OUT, Buy, SimulatedInstance


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
    return (yield from _locked(instance, _cohort(instance), began))


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
    rush, cohort, entries, entry = instance.rush, _cohort(instance), instance.entries, instance.ticket(began)
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
    rush, cohort = instance.rush, _cohort(instance)
    shard = rush.random.randrange(len(rush.shards))
    if instance.known is not None and began < instance.known:
        return SOLD_OUT
    line, script = instance.lines[shard], partial(instance.trip, partial(_sell, instance, shard), shard)
    if not line.count and (outcome := (yield from script())):
        return outcome
    with line.request() as turn:
        yield turn
        while not (outcome := (yield from script())):
            if (yield from cohort.acquire(began)) == LOCK_TIMEOUT:
                return LOCK_TIMEOUT
            yield from _refill(instance, shard)
            yield from cohort.release()
    return outcome


def _sell(instance: SimulatedInstance, shard: int) -> str:
    if instance.rush.shards[shard]:
        instance.rush.shards[shard] -= 1
        return instance.rush.sell()
    return "" if instance.known is None else SOLD_OUT


def _refill(instance: SimulatedInstance, shard: int) -> Steps:
    """See `app/sales/transfer.py`: debit, credit and settle; if the treasury is empty, a look at every slot first."""
    shards, entered = instance.rush.shards, instance.rush.env.now
    treasury = instance.rush.stock - sum(shards)
    yield from instance.trip()
    amount = max(treasury // (2 * len(shards)), 1)
    if not treasury:
        for node in range(1 + len(shards)):
            yield from instance.trip(node=node)
        richest = max(range(len(shards)), key=lambda each: shards[each])
        amount = ceil(shards[richest] / 2)
        if not amount:
            instance.known = entered
            return
        shards[richest] -= amount
        yield from instance.trip(node=richest)
    shards[shard] += amount
    for _ in range(2):
        yield from instance.trip(node=shard)


class Mutex:
    """One acquisition of the lock."""

    def __init__(self, instance: SimulatedInstance) -> None:
        self._instance = instance

    def acquire(self, began: float) -> Steps:
        """Wait for the turn; how the wait ended."""
        self._key = self._instance.ticket(began)
        how = yield from self._instance.queue(self._key)
        if how != TURN:
            yield self._instance.delete(self._key)
        return how

    def release(self) -> Steps:
        """Let the next one in: at once, if it is of this instance."""
        passed = self._instance.rush.queue.pass_on(self._instance)
        yield self._instance.delete(self._key, urgent=not passed)


class Cohort:
    """The lock that an instance hands along inside; see `lock/recipes/cohort.py`."""

    def __init__(self, instance: SimulatedInstance) -> None:
        self._instance, self._rush = instance, instance.rush
        self._waiting: deque[Ticket] = deque()
        self._busy, self._turns, self._since = False, 0, 0.0
        self._key: Ticket | None = None
        self._given_up = self._rush.env.event()

    def acquire(self, began: float) -> Steps:
        """Wait for a turn; how the wait ended."""
        waiter = self._instance.ticket(began)
        self._waiting.append(waiter)
        self._busy = self._busy or self._call(LEAD)
        how = yield waiter.turn
        if how == LEAD:
            how = yield from self._lead(began)
            self._turns, self._since = 0, self._rush.env.now
            if how != TURN and not (how == LOCK_TIMEOUT and self._call(LEAD)):  # or else the next one has the key
                yield from self._give_up()
        return how

    def _lead(self, began: float) -> Steps:
        key = self._key
        if key is None:
            key = self._key = self._instance.ticket(began)
            how = yield from self._instance.queue(key)
        else:
            key.turn = self._rush.env.event()
            how = yield self._instance.await_turn(key, began).turn
        return TURN if how == LOCK_TIMEOUT and key.told else how  # the turn may have come with the very write

    def release(self) -> Steps:
        """Hand the turn on, or the lock back."""
        settings, env = self._rush.costs.settings, self._rush.env
        left = max(settings["cohort_slice_s"] - (env.now - self._since), 0.0)
        contended = self._rush.queue.contended(self._instance)
        self._turns += 1
        spent = self._turns >= settings["cohort_turns"] or not left
        if (spent and contended) or not self._call(TURN):
            yield from self._give_up()
        elif contended:
            yield self._given_up | env.timeout(left)

    def _give_up(self) -> Steps:
        given_up, self._given_up = self._given_up, self._rush.env.event()
        assert self._key is not None
        gone, self._key = self._instance.delete(self._key), None
        self._busy = self._call(LEAD)
        yield gone
        given_up.succeed()

    def _call(self, how: str) -> bool:
        """Wake the first that waits, if there is one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if waiter.waits:
                waiter.end(how)
                return True
        return False


def _cohort(instance: SimulatedInstance) -> Cohort:
    cohort: Cohort = instance.cohort or Cohort(instance)
    instance.cohort = cohort
    return cohort


_ALL: list[Buy] = [none, thread, etcd, etcd_cohort, etcd_batch, etcd_sharded, redis_lock, redis_watch, redis_lua]
GUARDS = {guard.__name__.replace("_", "-"): guard for guard in _ALL} | {"etcd-unfenced": etcd}
