"""Which moves of a state need not be tried, since others lead to the same violations.

Two that can be swapped: sessions with equal scripts of which etcd knows nothing yet, and threads with equal scripts
that have not begun (again): the state is its own mirror image, so what the second may do, the first may do.

An order that makes no difference: where a session holds nothing, and nothing new can come before what it has been told
already (all its requests are answered, and each of its watches has something to tell), then its own next moves go
first: a persistent set (Godefroid). Moves of other sessions, and etcd's, neither change those moves nor are changed by
them; none ends a hold, and a hold that begins sooner breaks every rule that it would break later. This needs that no
fault and no time can come between, so it is not done where they may.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tests.lock.core.small_world import Actor, Process, World

Move = tuple[Any, ...]
_OF_A_REQUEST = ("arrive", "answer", "lose", "delay", "repeat", "tell_twice", "forget")
_OF_NONE = ("time", "depart", "delete_by_hand", "queue_as_go_does", "back_up", "restore")


def needed(world: World, moves: list[Move]) -> list[Move]:
    """Those that are to be tried."""
    alike: dict[Hashable, int] = {}
    doubles = set()
    for process in world.processes:
        first = alike.setdefault(_looks(world, process), process.number)
        doubles |= {process.number} if first != process.number else set()
    moves = [move for move in moves if session_of(world, move) not in doubles and not _is_second_thread(world, move)]
    if not world.faults and not world.times and not any(move[0] == "lapse" for move in moves):
        for process in world.processes:
            if _knows_all(world, process):
                own = [move for move in moves if session_of(world, move) == process.number]
                if any(move[0] != "leave" for move in own):  # for none has to leave
                    return own
    return moves


def session_of(world: World, move: Move) -> int | None:
    """The number of the session that moves."""
    kind, *where = move
    if kind in _OF_NONE:
        return None
    number: int = world.flights[where[0]].process.number if kind in _OF_A_REQUEST else where[0]
    return number


def _looks(world: World, process: Process) -> Hashable:
    """Equal for sessions that can be swapped."""
    number, core = process.number, process.core
    flights = [flight for flight in world.flights if flight.process is process]
    is_unseen = not core.revisions.highest and all(flight.stage == "sent" for flight in flights)
    is_unseen = is_unseen and not any(kv.lease_id == number for kv in world.etcd.keys.values())
    is_unseen = is_unseen and not any(watch[0] == number for watch in world.etcd.watches)
    if world.faults < world.budget or not is_unseen:
        return number
    asked = tuple((type(flight.request), flight.actor and flight.actor.number) for flight in flights)
    return asked, tuple((actor.wants, actor.state, _began(actor)) for actor in process.actors)


def _began(actor: Actor) -> float | None:
    current: Any = actor.current
    return None if current is None else getattr(current, "started", None) or current.deadline


def _is_second_thread(world: World, move: Move) -> bool:
    if move[0] != "begin":
        return False
    actor = world.actor(*move[1:])
    before = actor.process.actors[: actor.number - 1]
    return any((each.state, each.wants, each.since) == ("idle", actor.wants, actor.since) for each in before)


def _knows_all(world: World, process: Process) -> bool:
    """Whether whatever comes to it later comes behind what is there, and it holds nothing."""
    flights = [flight for flight in world.flights if flight.process is process]
    watches = [watch for (number, _), watch in world.etcd.watches.items() if number == process.number]
    return (
        process.state == "runs"
        and not any(actor.holds for actor in process.actors)
        and all(flight.stage not in ("sent", "late") for flight in flights)
        and all(watch.stage == "cut" or watch.pending for watch in watches)
    )
