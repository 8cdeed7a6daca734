"""When nothing happens in a world any more until somebody is told to go on: for what each purchase waits.

A purchase that stands before a command, or is over, is quiescent. Each other one has to be known to wait:

- behind another key in the lock's queue in etcd, as etcd tells;
- in a loop that polls: it has tried once more, in vain, since all others stand;
- in a call that blocks, as the system tells: none of its threads is executed. Whoever is found to go on after all has
  made one state have two futures, which ends the exploration without a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labs.steps.schedules.instances import IDLE_S
from labs.steps.schedules.purchases import Stepped
from loadtest.results.comparison import NO_RESULT
from loadtest.stack.process import ServerError

if TYPE_CHECKING:
    from labs.steps.schedules.world import World

LIMIT_S = 5.0
LATE_S = 1.0  # a key that is still there so long after its purchase is over was left there
LOOK_S = 0.002
# Pauses of a wait that polls, in two attempts at least: the first of them may have begun before all others stood. To
# acquire takes four pauses and no wait: two looks whether it still may wait, and two more after a cancel.
PAUSES = 8
SILENTLY = "something in its own process"


class NoVerdict(ServerError):
    """Nothing can be said about the guard; the message says why, and what to do."""

    exit_code = NO_RESULT


def quiesce(world: World) -> None:
    """Wait until each stands, is over, or is known to wait for what `Stepped.waits_for` says; raises NoVerdict."""
    began, baseline = time.monotonic(), dict[str, int]()
    while moving := world.look_at_moving():
        if baseline.keys() != {each.buyer for each in moving}:  # one more stands: it is a new world
            baseline = {each.buyer: each.paused for each in moving}
        is_late = time.monotonic() > began + LATE_S
        for each in moving:
            each.waits_for = _waits_for(each, world, baseline[each.buyer], is_late)
        if all(each.waits_for for each in moving):
            moving = world.look_at_moving()  # once more: a message that has come since is on its way no longer
            if all(each.waits_for != SILENTLY or each.idle_s >= IDLE_S for each in moving):
                break
        if time.monotonic() > began + LIMIT_S:
            raise _unknown(moving[0], world)
    for each in world.purchases:
        each.waits_for = each.waits_for if each in moving else ""


def await_silent(world: World) -> bool:
    """Wait until a purchase goes on that waits for nobody knows what, where nothing else can move.

    False if there is none, or if it waits for what nobody will ever do; raises NoVerdict.
    """
    began, silent = time.monotonic(), [each for each in world.purchases if each.waits_for == SILENTLY]
    while silent and not any(each.is_quiescent for each in silent):
        if time.monotonic() > began + LIMIT_S:
            raise _unknown(silent[0], world)
        if time.monotonic() > began + LATE_S:
            silent = [each for each in silent if each.buyer not in world.behind_in_etcd(is_late=True)]
        world.look_at_moving()
    return bool(silent)


def _unknown(purchase: Stepped, world: World) -> NoVerdict:
    if unordered := world.unordered():
        return NoVerdict(f"not every order was tried: {purchase.buyer} uses {', '.join(sorted(unordered))}.")
    return NoVerdict(
        f"{purchase.buyer} came to no command within {LIMIT_S:g} s and is in {world.where(purchase)}. "
        "A loop that waits has to call self.sessions.check_open() or time.sleep() in each round."
    )


def _waits_for(purchase: Stepped, world: World, paused: int, is_late: bool) -> str:
    """For what it is known to wait; empty if that is not known."""
    if purchase.is_asking:
        return ""
    if purchase.paused - paused >= PAUSES:
        return "another answer than before"
    if purchase.is_in_doubt and not is_late:
        return ""
    if purchase.buyer in world.behind_in_etcd(is_late=is_late):
        return "its turn in etcd's queue"
    if purchase.buyer == world.first_in_etcd() and not is_late:
        return ""  # it is being told so
    return SILENTLY if purchase.idle_s >= IDLE_S else ""


def can_nothing_move(purchases: Sequence[Stepped]) -> bool:
    """Whether all that are not over wait."""
    return not any(each.can_step or each.instance.frozen for each in purchases)
