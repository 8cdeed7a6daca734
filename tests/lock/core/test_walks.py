"""Random walks through whole histories, and whether they would notice if a rule of the core were missing."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Container
from typing import Any

import pytest

from lock.core import reconciler
from lock.core.acquisition import Acquisition
from lock.core.cohort import Cohort, CohortTurn
from lock.core.core import Core
from lock.core.grants import Grants
from lock.core.queue import KeyNames, Queue, Stage, Ticket
from lock.core.view import QueueView
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


def grant_any(grants: Grants, ticket: Ticket, token: int | None) -> None:
    """Without a look at the create revision."""
    if ticket.stage in (Stage.WRITING, Stage.QUEUED) and ticket.failure is None:
        ticket.created, ticket.stage = token, Stage.HELD
        grants._core.changes.append(ticket)


def reuse(names: KeyNames, ticket: Ticket) -> None:
    """Whatever is still in doubt."""


def believe_the_lease(watcher: reconciler.Reconciler, asked: dict[Any, Any], answer: Any) -> None:
    """A key that is not in the lease's list is lost, without a read."""
    for key, ticket in asked.items():
        found = watcher._core.tickets.get(key)
        if answer.ttl >= 0 and key not in answer.keys and found is not None and found is ticket:
            watcher._core.key_deleted(found, 0.0)


def count_from_the_answer(core: Core, sent: float, ttl: int, now: float) -> None:
    if ttl and now < core.deadline:
        core.deadline = now + ttl


def never_compare(watcher: reconciler.Reconciler, now: float) -> float:
    return now + 1000.0


def place_second(grants: Grants, ticket: Ticket, answer: Any, now: float) -> None:
    if answer.number is not None and answer.number <= 2:
        grants.grant(ticket, ticket.created)
    else:
        PLACE(grants, ticket, answer, now)


def apply_at_once(queue: Queue, events: Any) -> bool:
    """Events that come before the list."""
    assert queue.view is not None
    if queue.view.revision == 0:
        return False
    queue.view.apply(events)
    return True


def watch_alone(queue: Queue) -> None:
    """A view that was listed once needs no list after a break."""
    assert queue.view is not None
    queue.epoch = object()
    queue.is_watched, queue.is_listed = True, queue.view.revision > 0
    queue.wants_list = not queue.is_listed


def forget_fences(core: Core, ticket: Ticket, now: float, **options: bool) -> Any:
    ticket.is_fence = False
    return RELEASE(core, ticket, now, **options)


def look_away(acquisition: Acquisition, now: float) -> Any:
    """A turn is a hold, whatever has become of the lease."""
    if acquisition.ticket.stage is Stage.HELD:
        acquisition.is_held = True
        return None
    return NEXT(acquisition, now)


def keep_going(watcher: reconciler.Reconciler, now: float) -> None:
    """What an interrupt left behind is nobody's business."""


def ask_whenever(core: Core, ticket: Ticket, now: float) -> bool:
    """Whether others wait behind a hold that is over, in a queue that may be forgotten."""
    core.queues[ticket.queue.prefix] = ticket.queue
    if ticket.queue.view is None:
        core.following.join(ticket.queue, now)
    return False


def name_alike(names: KeyNames, queue: Queue, folder: str, taken: Container[str]) -> tuple[int, str]:
    """As another name's key may be named."""
    slot = queue.take_slot()
    return slot, f"{queue.prefix}{folder}{names._lease_id:x}-{slot:x}"


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


def fence_whenever(core: Core, ticket: Ticket, now: float) -> None:
    """By a hold that is over, whose successor may hold already."""
    ticket.is_fence = True


def follow_anew(queue: Queue, now: float) -> None:
    """With a view that knows nothing of the keys that are being deleted."""
    FOLLOW(queue, now)
    queue.view = QueueView()
    for ticket in queue.tickets.values():
        queue.view.follow(ticket.rule)


def look_in_the_past(watcher: reconciler.Reconciler, now: float) -> float:
    """At the end of a look's time, whether or not anything is due then."""
    due = POLL(watcher, now)
    return watcher._began + 10 * watcher._period if watcher._open else due


ENTER, YOUNG = Cohort.enter, Cohort._is_young
PLACE, RELEASE, NEXT = Grants.place, Core.release, Acquisition.next
FOLLOW, POLL = Queue.follow, reconciler.Reconciler.poll
MISSING: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a hold is handed over only where the view admits the next": (Grants, "hand_over", hand_over_blindly),
    "a ticket is granted by its create revision": (Grants, "grant", grant_any),
    "a name in doubt is not used again": (KeyNames, "burn", reuse),
    "a missing key is confirmed by a read": (reconciler.Reconciler, "_compare", believe_the_lease),
    "the deadline counts from the sending": (Core, "renewed", count_from_the_answer),
    "the lease's keys are compared": (reconciler.Reconciler, "poll", never_compare),
    "only a count of one is a hold": (Grants, "place", place_second),
    "events wait for the list": (Queue, "apply", apply_at_once),
    "a new watch is followed by a list": (Queue, "watching", watch_alone),
    "a fence is not handed over": (Core, "release", forget_fences),
    "a grant is followed by a look at the lease": (Acquisition, "next", look_away),
    "abandoned tickets are left": (reconciler.Reconciler, "_leave_abandoned", keep_going),
    "names that nest share no key": (KeyNames, "take", name_alike),
    "who waits is asked by a holder alone": (Core, "contended", ask_whenever),
    "a fence is given to a holder alone": (Core, "fence", fence_whenever),
    "a new view knows what is being deleted": (Queue, "follow", follow_anew),
    "nothing is due while a look is open": (reconciler.Reconciler, "poll", look_in_the_past),
    "turns come one after the other": (Cohort, "enter", start_at_once),
    "a turn with a fence is the last of its hold": (Cohort, "_is_young", pass_a_fence_on),
    "a hold lingers for a while": (Cohort, "poll", keep_for_ever),
    "a writer waits for all before it": (ReadersTogether, "kind", lambda rule, kv: "read"),
}
RARE = {  # what breaks without these is found after a second or more: slow
    "a ticket is granted by its create revision",
    "the deadline counts from the sending",
    "a new watch is followed by a list",
    "who waits is asked by a holder alone",
    "a new view knows what is being deleted",
}


@pytest.mark.parametrize(
    "rule", [pytest.param(each, marks=pytest.mark.slow) if each in RARE else each for each in MISSING]
)
def test_a_missing_rule_is_found(rule: str, monkeypatch: Patch) -> None:
    """Within a thousand histories, each of the rules that the core is made of."""
    owner, name, without = MISSING[rule]
    monkeypatch.setattr(owner, name, without)
    for seed in range(ENOUGH):
        try:
            walk(seed)
        except (AssertionError, KeyError) as error:  # not AttributeError, which tells that the rule has other names now
            print(f"found by seed {seed}: {str(error)[-200:]}")
            return
    pytest.fail(f"{ENOUGH} histories look right although it is not so that {rule}")
