"""Random walks through whole histories, and whether they would notice if a rule of the core were missing."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from lock.core import reconciler
from lock.core.cohort import Cohort, CohortTurn
from lock.core.grants import Grants
from lock.core.queue import Queue, Stage, Ticket
from lock.recipes.read_write import ReadersTogether
from tests.lock.core.small_world import Violation
from tests.lock.core.walks import walk
from tests.support.waiting import Patch

BUDGET_S = 4.0
LONG_S = 3600.0
ENOUGH = 1000  # histories in which a missing rule has to be found


def walk_for(seconds: float, first: int) -> None:
    """History after history, as many as fit; SEED=n runs that one alone."""
    if "SEED" in os.environ:
        walk(int(os.environ["SEED"]))
        return
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        try:
            walk(seed)
        except Violation as violation:
            pytest.fail(f"SEED={seed} breaks a rule:\n{violation}")
        if time.monotonic() > end:
            print(f"{seed - first + 1} histories")
            return


def test_some_seconds_of_histories_break_no_rule() -> None:
    """Never two holders, tokens rise, waits end, nothing is left, a fence never hands over, no loss is made up."""
    walk_for(BUDGET_S, 0)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(LONG_S + 600)
def test_an_hour_of_histories_breaks_no_rule() -> None:
    """As above, with other seeds each day."""
    walk_for(LONG_S, int(time.time()) // 86_400 * 1_000_000)


# Rules that are taken out by hand


def hand_over_blindly(grants: Grants, ticket: Ticket) -> bool:
    """To the next ticket of this session, whoever stands between."""
    queue = ticket.queue
    if queue.shows(ticket):
        assert queue.view is not None
        queue.view.discard(ticket.key, ticket.created or 0)
    waiting = [each for each in queue.tickets.values() if each.stage is Stage.QUEUED and each is not ticket]
    for each in waiting[:1]:
        grants.grant(each, each.created)
    return bool(waiting)


def believe_the_lease(watcher: reconciler.Reconciler, asked: dict[Any, Any], answer: Any) -> None:
    """A key that is not in the lease's list is lost, without a read."""
    for key, ticket in asked.items():
        found = watcher._endings.tickets.get(key)
        if answer.ttl >= 0 and key not in answer.keys and found is not None and found is ticket:
            watcher._endings.key_deleted(found, 0.0)


def never_compare(watcher: reconciler.Reconciler, now: float) -> float:
    return now + 1000.0


def apply_at_once(queue: Queue, events: Any) -> bool:
    """Events that come before the list."""
    assert queue.view is not None
    if queue.view.revision == 0:
        return False
    queue.view.apply(events)
    return True


def keep_going(watcher: reconciler.Reconciler, now: float) -> None:
    """What an interrupt left behind is nobody's business."""


def start_at_once(cohort: Cohort, turn: CohortTurn, now: float) -> Any:
    """A turn beside the one that runs."""
    if cohort.turn is not None and cohort.turn.ticket is not None:
        cohort._start(turn, cohort.turn.ticket)
        return
    ENTER(cohort, turn, now)


def pass_a_fence_on(cohort: Cohort, ticket: Ticket, now: float) -> bool:
    """To another turn, while a transaction relies on the key."""
    was_fence, ticket.is_fence = ticket.is_fence, False
    is_young = YOUNG(cohort, ticket, now)
    ticket.is_fence = was_fence
    return is_young


def keep_for_ever(cohort: Cohort, now: float) -> float:
    """A hold that lingers."""
    return now + 1000.0


ENTER, YOUNG = Cohort.enter, Cohort._is_young
MISSING: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a hold is handed over only where the view admits the next": (Grants, "hand_over", hand_over_blindly),
    "a missing key is confirmed by a read": (reconciler.Reconciler, "_compare", believe_the_lease),
    "the lease's keys are compared": (reconciler.Reconciler, "poll", never_compare),
    "events wait for the list": (Queue, "apply", apply_at_once),
    "abandoned tickets are left": (reconciler.Reconciler, "_leave_abandoned", keep_going),
    "turns come one after the other": (Cohort, "enter", start_at_once),
    "a turn with a fence is the last of its hold": (Cohort, "_is_young", pass_a_fence_on),
    "a hold lingers for a while": (Cohort, "poll", keep_for_ever),
    "a writer waits for all before it": (ReadersTogether, "kind", lambda rule, kv: "read"),
}


@pytest.mark.parametrize("rule", MISSING)
def test_a_missing_rule_is_found(rule: str, monkeypatch: Patch) -> None:
    """Within a thousand histories, whatever it is that breaks then: exclusion, a fence, a wait, or what is left."""
    owner, name, without = MISSING[rule]
    monkeypatch.setattr(owner, name, without)
    for seed in range(ENOUGH):
        try:
            walk(seed)
        except (AssertionError, KeyError) as error:  # not AttributeError, which tells that the rule has other names now
            print(f"found by seed {seed}: {str(error)[-200:]}")
            return
    pytest.fail(f"{ENOUGH} histories look right although it is not so that {rule}")
