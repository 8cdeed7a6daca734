"""QueueView, WaitQueue, Acquisition and Hold against a small model, under whatever a network and a crowd can do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lock.errors import EtcdError, EtcdUnavailable, LockCancelled, LockLost, LockTimeout
from lock.model import Declaration, declaration
from lock.queue import wait_queue
from lock.recipes.acquisition import ALONE, Acquisition, Terms
from lock.recipes.hold import HeldKey, Hold
from lock.recipes.read_write import ReadersTogether, WriteHold
from lock.recipes.semaphore import UpTo
from lock.runtime.clock import now
from lock.runtime.execution import run_blocking
from tests.lock.conformance.recipes import OneKind
from tests.support.model_etcd import PREFIX, Fate, ModelEtcd
from tests.support.model_process import Process
from tests.support.waiting import Patch

T = TypeVar("T")
SOME = st.integers(0, 10_000)  # chooses one of what there is at that moment
STRANGER = 0  # a lease of no process here
TERMS = {  # of the recipes
    "mutex": ALONE,
    "reader": Terms(ReadersTogether(), Declaration("read"), "read/"),
    "writer": Terms(ReadersTogether(), Declaration("write"), "write/"),
    "permit": Terms(UpTo(2), Declaration("permit", 2)),
    "red": Terms(OneKind(), Declaration("red")),
    "blue": Terms(OneKind(), Declaration("blue")),
}
QUEUES = [["mutex"], ["reader", "reader", "writer"], ["permit"], ["red", "blue"], list(TERMS)]
AGE = st.integers(0, 8)  # revisions
MISFORTUNES = st.sampled_from(
    ["holder's key is deleted"] * 4 + ["a key is deleted"] * 2 + ["expires", "crashes", "is revoked", "is buried"]
)
MAY_FAIL = st.sampled_from([Fate.ANSWERED, Fate.ANSWERED, Fate.ANSWERED, Fate.LOST_BEFORE, Fate.LOST_AFTER, Fate.LATE])


class Crowd(RuleBasedStateMachine):
    """Processes and other clients that queue, hold, crash and expire; a network that loses, delays and repeats."""

    def __init__(self) -> None:
        super().__init__()
        self.etcd = ModelEtcd()
        self.etcd.leases.add(STRANGER)
        self.processes: list[Process] = []
        self.crashed: list[Process] = []
        self.serial = itertools.count(1)
        self.granted: set[str] = set()
        self.highest = 0  # token
        self.highest_alone = 0
        self.recipes: list[str] = []

    @initialize(number=st.integers(1, 3), joins=st.lists(SOME, max_size=6), recipes=st.sampled_from(QUEUES))
    def begin(self, number: int, joins: list[int], recipes: list[str]) -> None:
        self.recipes = recipes
        self.processes = [Process(self.etcd) for _ in range(number)]
        for process in self.processes:
            process.follow()
        for some in joins:
            self.join(some, Fate.ANSWERED)

    # The crowd

    @rule(
        some=SOME, fate=st.sampled_from([Fate.ANSWERED] * 4 + list(Fate)), robbed=st.sampled_from([True] + [False] * 9)
    )
    def join(self, some: int, fate: Fate, robbed: bool = False) -> None:
        """A thread queues; robbed: its key is deleted, and that is told, before the answer is there."""
        process = choose(self.processes, some)
        acquisition = process.acquisition(TERMS[choose(self.recipes, some // 3)])
        process.client.fate = fate
        process.client.meanwhile = self.rob if robbed else None
        try:
            run_blocking(acquisition.join, now())
            process.waits.append(acquisition)
        except EtcdUnavailable:
            run_blocking(acquisition.withdraw)
        process.client.meanwhile = None
        if process.failure:  # etcd has told that the lease is gone
            self.begin_anew(process)

    def rob(self, key: str) -> None:
        self.etcd.delete(key, None)
        self.tell_all()

    @precondition(lambda self: any(self.woken()))
    @rule(some=SOME)
    def wake(self, some: int) -> None:
        """A thread that was woken holds, or is told why it does not."""
        self.conclude(*choose(list(self.woken()), some))

    @precondition(lambda self: any(self.waits()))
    @rule(some=SOME, fate=MAY_FAIL, cancelled=st.booleans())
    def hand_over(self, some: int, fate: Fate, cancelled: bool) -> None:
        process, acquisition = choose(list(self.waits()), some)
        process.client.fate = fate
        granted = acquisition._ticket.token is not None and acquisition._ticket.failure is None
        if cancelled:
            acquisition.cancel()
        self.conclude(process, acquisition)
        assert not granted or acquisition._ticket.failure is None, "a hold was cancelled"
        process.client.fate = Fate.ANSWERED

    @precondition(lambda self: any(process.holds for process in self.processes))
    @rule(some=SOME, fate=MAY_FAIL)
    def release(self, some: int, fate: Fate) -> None:
        process, hold = choose([(process, hold) for process in self.processes for hold in process.holds], some)
        process.holds.remove(hold)
        process.client.fate = fate
        self.let_go(process, hold)

    @precondition(lambda self: any(self.writers()))
    @rule(some=SOME)
    def downgrade(self, some: int) -> None:
        """A writer goes on as a reader, in the same place."""
        process, hold = choose(list(self.writers()), some)
        try:
            reader = hold.downgrade()
        except LockLost:
            assert hold.lost.is_set() or not self.etcd.has(hold.key, hold.token)
            if hold.released:  # it was found lost on the way: it has no reader
                process.given_up.add((hold.key, hold.token))
                process.holds.remove(hold)
        else:
            process.holds[process.holds.index(hold)] = reader
            assert (reader.key, reader.token) == (hold.key, hold.token)

    @rule(some=SOME, how=st.sampled_from(["joins", "reads", "leaves", "begins anew", "begins anew", "overwrites"]))
    def stranger(self, some: int, how: str) -> None:
        """Another client; begins anew: under the same name, in a later place."""
        strangers = sorted(kv.key for kv in self.etcd.keys.values() if kv.lease_id == STRANGER)
        if how == "joins" or not strangers:
            self.etcd.create(f"{PREFIX}stranger-{next(self.serial)}", b"", STRANGER)
        elif how == "reads":
            self.etcd.create(f"{PREFIX}read/{next(self.serial):019}", b"", STRANGER)
        elif how == "overwrites":
            self.etcd.overwrite(choose(strangers, some))
        else:
            self.etcd.delete(choose(strangers, some), None)
            if how == "begins anew":
                self.etcd.create(choose(strangers, some), b"", STRANGER)

    @rule(some=SOME, misfortune=MISFORTUNES)
    def misfortune(self, some: int, misfortune: str) -> None:
        """The local deadline comes before etcd's; or a process is gone, and its lease later; or etcdctl is used."""
        process = choose(self.processes, some)
        if misfortune == "expires":
            process.lose()
            self.begin_anew(process)
        elif misfortune == "crashes":
            process.stop()
            self.replace(process)
        elif misfortune == "is revoked":
            self.etcd.revoke(process.lease_id)
        elif misfortune == "is buried" and self.crashed:
            self.etcd.revoke(choose(self.crashed, some).lease_id)
        elif self.etcd.keys:
            among = self.etcd.in_order()[: 1 if misfortune == "holder's key is deleted" else None]
            self.etcd.delete(choose(among, some).key, None)

    # The network

    @precondition(lambda self: any(self.behind()))
    @rule()
    def tell_everything(self) -> None:
        """Revision by revision, as on a good day."""
        self.tell_all()

    def tell_all(self) -> None:
        for process in self.behind():
            for revision, events in process.untold():
                process.tell(revision, events)

    @precondition(lambda self: any(self.behind()))
    @rule(some=SOME, number=st.sampled_from([1, 1, 2, 4, 99]), dropped=st.sampled_from([False, False, True]))
    def tell(self, some: int, number: int, dropped: bool) -> None:
        """The watch tells some revisions in one batch; perhaps it keeps the DELETEs in them to itself."""
        process = choose(list(self.behind()), some)
        told = process.untold()[:number]
        process.tell(told[-1][0], [event for _, batch in told for event in batch], dropped=dropped)

    @rule(some=SOME, fault=st.sampled_from(["repeats", "repeats", "breaks", "is compacted", "is audited"]), age=AGE)
    def watch_of(self, some: int, fault: str, age: int) -> None:
        """Something happens to a watch."""
        process = choose(self.processes, some)
        if fault == "repeats" and process.client.current.listed:
            process.tell_again(age, 1 + some % 3)
        elif fault == "is audited":
            process.audit(self.etcd.snapshots[-1 - min(age, len(self.etcd.snapshots) - 1)] if age else None)
        elif fault == "is compacted":
            process.client.current.tell(EtcdError("required revision has been compacted"))
        else:
            process.client.current.tell(EtcdUnavailable("broken"))

    @precondition(lambda self: any(self.unlisted()))
    @rule(some=SOME, how=st.sampled_from(["at once", "at once", "open first", "in vain"]))
    def watch_again(self, some: int, how: str) -> None:
        """etcd begins to watch, and answers with a list, perhaps some time later, perhaps not at all."""
        process = choose(list(self.unlisted()), some)
        if process.client.current.position is None:
            process.open_watch()
        if how != "open first":
            process.list_keys(fails=how == "in vain")

    @precondition(lambda self: any(process.client.late for process in self.all_processes()))
    @rule(some=SOME)
    def late_call_arrives(self, some: int) -> None:
        """Also of a process that has crashed."""
        choose([process for process in self.all_processes() if process.client.late], some).late_call_arrives()

    @precondition(lambda self: any(process.pending for process in self.processes))
    @rule()
    def delete_later(self) -> None:
        for process in self.processes:
            process.sweep_up()

    # What has to be true at any time

    @invariant()
    def only_the_admitted_are_called(self) -> None:
        """Invariant 1: a ticket that is called, and whose key exists, is admitted; tokens of those alone rise."""
        for process in self.processes:
            for ticket in process.tickets:
                if ticket.token is None or ticket.key in self.granted:
                    continue
                self.granted.add(ticket.key)
                assert self.etcd.was_created(ticket.key, ticket.token), "the token is not a place in this queue"
                if not self.etcd.has(ticket.key, ticket.token):
                    continue  # its deletion has not been told yet: nothing that it could know
                assert ticket.key in process.admitted(ticket.rule), "called before its turn"
                alone = ticket.rule.kind(self.etcd.keys[ticket.key]) is None
                assert ticket.token > (self.highest if alone else self.highest_alone), "tokens do not rise"
                self.highest = max(self.highest, ticket.token)
                if alone:
                    self.highest_alone = ticket.token

    @invariant()
    def only_those_hold_together_that_may(self) -> None:
        """Invariant 1 again, as seen by the critical sections."""
        valid = [
            self.etcd.keys[hold.key]
            for process in self.processes
            for hold in process.holds
            if not hold.lost.is_set() and self.etcd.has(hold.key, hold.token)
        ]
        kinds = {declaration(kv).kind for kv in valid}
        limit = {"read": len(valid), "permit": 2, "red": len(valid), "blue": len(valid)}
        assert len(valid) <= 1 or (len(kinds) == 1 and len(valid) <= limit.get(kinds.pop() or "", 1)), (
            f"held by {valid}"
        )

    @invariant()
    def nobody_is_alarmed_for_nothing(self) -> None:
        """A hold or a place is lost only if the key is gone or the session is."""
        for process in self.processes:
            for ticket in process.tickets:
                lost = isinstance(ticket.failure, LockLost)
                assert not lost or ticket.key not in self.etcd.keys or ticket.in_doubt, f"{ticket.key} is there"

    @invariant()
    def a_process_that_is_told_everything_knows_everything(self) -> None:
        """A process that was told everything has called its own tickets that hold, and failed those without a key."""
        for process in self.processes:
            if not process.is_current():
                continue
            known = [(kv.key, kv.create_revision) for kv in process.queue._view.in_order()]
            assert known == [(kv.key, kv.create_revision) for kv in process.in_order()]
            for acquisition in process.waits:
                ticket = acquisition._ticket
                called = ticket.turn.is_set()
                assert called or ticket.key not in process.admitted(ticket.rule), f"{ticket.key} was not called"
                assert ticket.failure or ticket.key in self.etcd.keys, f"{ticket.key} was not told that it is gone"
            for hold in process.holds:
                there = self.etcd.has(hold.key, hold.token)
                assert hold.lost.is_set() or there, f"{hold.key} was not told that it is gone"

    # In the end

    def teardown(self) -> None:
        """When all faults are over, everyone who waits gets the lock or an error, and no key is left."""
        try:
            for process in self.all_processes():
                while process.client.late:
                    process.late_call_arrives()
            for process in self.crashed:
                self.etcd.revoke(process.lease_id)
            for key in [kv.key for kv in self.etcd.keys.values() if kv.lease_id == STRANGER]:
                self.etcd.delete(key, None)
            self.drain()
            assert not self.etcd.keys, "orphans"
        finally:
            for process in self.processes:
                process.stop()

    def drain(self) -> None:
        """Everyone gets the lock in turn and releases it."""
        for _ in range(len(self.etcd.keys) + 2):
            for process in self.processes:
                process.sweep_up()
                process.heal()
                for acquisition in list(process.waits):
                    if acquisition._ticket.turn.is_set():
                        self.conclude(process, acquisition)
                while process.holds:
                    self.let_go(process, process.holds.pop())
        for process in self.processes:
            assert not process.waits, "a process waits without end"

    # Steps

    def all_processes(self) -> list[Process]:
        return [*self.processes, *self.crashed]

    def waits(self) -> Iterator[tuple[Process, Acquisition[Hold]]]:
        return ((process, wait) for process in self.processes for wait in process.waits)

    def woken(self) -> Iterator[tuple[Process, Acquisition[Hold]]]:
        return ((process, wait) for process, wait in self.waits() if wait._ticket.turn.is_set())

    def writers(self) -> Iterator[tuple[Process, WriteHold]]:
        held = ((process, hold) for process in self.processes for hold in process.holds)
        return ((process, hold) for process, hold in held if isinstance(hold, WriteHold) and not hold.lost.is_set())

    def behind(self) -> Iterator[Process]:
        return (process for process in self.processes if process.client.current.listed and process.untold())

    def unlisted(self) -> Iterator[Process]:
        return (process for process in self.processes if not process.client.current.listed)

    def replace(self, process: Process) -> None:
        self.processes.remove(process)
        self.crashed.append(process)  # what it has sent may still arrive
        self.processes.append(Process(self.etcd))
        self.processes[-1].follow()

    def conclude(self, process: Process, acquisition: Acquisition[Hold]) -> None:
        """The wait ends: with a hold, or with an error and without a key."""
        process.waits.remove(acquisition)
        ticket = acquisition._ticket
        try:
            hold = run_blocking(acquisition.wait, now())
        except LockTimeout:
            assert not ticket.turn.is_set()
            run_blocking(acquisition.withdraw)
        except (LockCancelled, LockLost):
            run_blocking(acquisition.withdraw)
        else:
            assert ticket.failure is None, "a body would run under a lock that is known to be lost"
            assert ticket.token == hold.token
            process.holds.append(hold)

    def let_go(self, process: Process, hold: Hold) -> None:
        process.given_up.add((hold.key, hold.token))
        try:
            hold.release()
        except LockLost:
            assert hold.lost.is_set() or not self.etcd.has(hold.key, hold.token)
        assert hold.key not in self.etcd.keys or hold.key in [key for key, _ in process.pending]

    def begin_anew(self, process: Process) -> None:
        """A lost session: no wait goes on, and every hold knows; and there is a new one."""
        assert all(acquisition._ticket.turn.is_set() for acquisition in process.waits)
        assert all(hold.lost.is_set() and hold.remaining() == 0.0 for hold in process.holds)
        for acquisition in list(process.waits):
            self.conclude(process, acquisition)
        self.etcd.revoke(process.lease_id)
        self.replace(process)


def choose(among: list[T], some: int) -> T:
    return among[some % len(among)]


def test_a_crowd_on_a_bad_network(monkeypatch: Patch) -> None:
    """Thousands of random steps: never two holders, tokens rise, every wait ends, no key is left."""
    monkeypatch.setattr(wait_queue, "_AUDIT_S", -1.0)
    monkeypatch.setattr(wait_queue, "_RETRY_S", (0.0,))
    monkeypatch.setattr(HeldKey, "__del__", lambda hold: None)
    run_state_machine_as_test(
        Crowd,
        settings=settings(
            max_examples=150 if settings().derandomize else 500,  # when it searches anew
            stateful_step_count=80,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
