"""A state of a small world as bytes: equal for equal states, and a copy of the world can be made of them.

Times count from now and revisions by their order, so that two histories which differ only in when they began meet.
"""

from __future__ import annotations

import copyreg
import io
import itertools
import math
import pickle
import re
import sys
import weakref
from collections import Counter, OrderedDict
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import lock.core
from lock import errors, model
from lock.core import messages
from lock.core.acquisition import Acquisition, Terms
from lock.core.admission import Exclusive
from lock.core.cohort import Bounds, CohortTurn
from lock.core.queue import Queue, Stage
from lock.errors import LockError
from lock.model import KeyValue, Snapshot
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo
from tests.lock.core import small_world
from tests.lock.core.small_world import Flight, Key, Plan, Revision, Time, Value, Want, World

SPAN_S = 5.1  # longer than any time for which the core does not look at something again
_WRITTEN, _RANKED = 0x5A5A0000, 0x5B5B0000  # what stands for a revision in a dump: first as it is, then its rank
_constants: list[Any] = []
_TERMS: dict[Terms, Terms] = {Terms(): Want().terms}
_positions: dict[int, int] = {}


def _constant(number: int) -> Any:
    return _constants[number]


def _reduce_constant(value: Any) -> Any:
    """Values that never change: one object serves all copies."""
    if id(value) not in _positions:
        _positions[id(value)] = len(_constants)
        _constants.append(value)
    return _constant, (_positions[id(value)],)


def _revision(ranked: int) -> Revision:
    return Revision(ranked - _RANKED)


def _dead() -> None: ...


def _reference(target: Any) -> Any:
    return _dead if target is None else weakref.ref(target)


def _reduce_failure(failure: LockError) -> Any:
    return type(failure), ("",)  # whatever it says


_ALWAYS: dict[type, Any] = {
    **dict.fromkeys([Plan, Want, Terms, Bounds, re.Pattern, Stage, Key, Value], _reduce_constant),
    **dict.fromkeys([Exclusive, ReadersTogether, UpTo], _reduce_constant),
    **dict.fromkeys([each for each in vars(errors).values() if isinstance(each, type)], _reduce_failure),
    weakref.ref: lambda reference: (_reference, (reference(),)),
    itertools.count: lambda numbers: (itertools.count, (int(repr(numbers)[6:-1]),)),
}


_PARTS = [import_module(f"lock.core.{part.name}") for part in iter_modules(lock.core.__path__)]
_OURS = [each for part in (*_PARTS, model, small_world) for each in vars(part).values() if isinstance(each, type)]
_SHORT: list[Any] = [*_OURS, Counter, OrderedDict, _constant, _dead, _reference, _revision, getattr]
for _number, _one in enumerate(dict.fromkeys(_SHORT), 200):  # a code instead of a name
    copyreg.add_extension(_one.__module__, _one.__qualname__, _number)


def tidy(world: World) -> None:
    """Make equal what neither the core nor a rule can tell apart any more."""
    etcd, now = world.etcd, world.now
    etcd.keys, etcd.watches = dict(sorted(etcd.keys.items())), dict(sorted(etcd.watches.items()))
    etcd.history = []
    world.flights = [flight for flight in world.flights if not _is_idle(flight)]
    world.flights.sort(key=_place)
    world.fenced = sorted({fence for fence in world.fenced if etcd.has(fence[1], fence[2][0])})
    world.highest = {name: token for name, token in sorted(world.highest.items()) if not _is_over(world, name, token)}
    for flight in world.flights:
        flight.stage = sys.intern(flight.stage)
    for watch in etcd.watches.values():
        watch.stage = sys.intern(watch.stage)
    first = None if world.may_be_restored() else _first_revisions(world)
    if first is not None:
        _forget_known(world)
    for process in world.processes:
        if process.state == "dead":
            process.__init__(world, process.number, ())  # type: ignore[misc]
            process.state = "dead"
        core, cohort = process.core, process.cohort
        if core.failure is not None:
            core.deadline = now
        process.due = _since(process.due, now)
        core.following.due, core.reconciler._due = _since(core.following.due, now), _since(core.reconciler._due, now)
        core.reconciler._began = _since(core.reconciler._began, now - SPAN_S)
        for queue in core.queues.values():
            _tidy_queue(queue, now)
        for place in [queue.position for queue in core.queues.values() if queue.position is not None]:
            place.due = _since(place.due, now)
        for ticket in core.tickets.values():
            if ticket.stage is not Stage.HELD:
                ticket.granted_at = 0
            if first is not None and (
                ticket.floor < first.get(ticket.key, math.inf)
                or not (ticket.is_writing or ticket.stage is Stage.WRITING)
            ):
                ticket.floor = 0
        cohort.is_contended = False  # for callers alone
        cohort.slice_ends, cohort._ends = _since(cohort.slice_ends, now), _since(cohort._ends, now)
        if cohort.turn is None and not cohort.is_lingering:
            cohort._taken = 0
            cohort.slice_ends = cohort._ends = now
        if not cohort.is_lingering:
            cohort._lingers_until = now
        process.state = sys.intern(process.state)
        for actor in process.actors:
            actor.state = sys.intern(actor.state)
            if actor.state != "waits":
                actor.until = math.inf
            _tidy_acquisition(actor.current, now)
        _tidy_acquisition(cohort.acquisition, now)


def _tidy_queue(queue: Queue, now: float) -> None:
    queue._free.sort()
    queue.trouble = None  # for messages alone
    if queue.view is not None:
        queue.used_at, queue.audited_at = _since(queue.used_at, now - SPAN_S), _since(queue.audited_at, now - SPAN_S)
        queue.list_at = _since(queue.list_at, now)
        for frontier in queue.view._frontiers.values():  # texts that are equal are to be one object
            kinds = {kind: kind and sys.intern(kind) for kind in frontier._ahead}
            for keys in (frontier._admitted, frontier._waiting):
                keys.update([(key, kind and sys.intern(kind)) for key, kind in keys.items()])
            frontier._ahead = Counter({kinds[kind]: count for kind, count in frontier._ahead.items()})


def _tidy_acquisition(current: Acquisition | CohortTurn | None, now: float) -> None:
    if isinstance(current, Acquisition):
        current.terms = _TERMS.setdefault(current.terms, current.terms)
        current._writes, current._retry_at = min(current._writes, 2), _since(current._retry_at, now)
        if current.deadline == math.inf:
            current.started = now
    elif current is not None and current.deadline == math.inf:
        current.since = now


def _first_revisions(world: World) -> dict[str, int]:
    """The lowest create revision of each key that something may yet tell."""
    found: list[KeyValue] = [*world.etcd.keys.values()]
    found += [event.kv for watch in world.etcd.watches.values() for events in watch.pending for event in events]
    first: dict[str, int] = {}
    for process in world.processes:
        for queue in process.core.queues.values():
            if queue.view is not None:
                found += [*queue.view._keys.values(), *(event.kv for event in queue.late)]
                first.update((key, created) for key, created in queue.view._discarded.items() if created is not None)
    for flight in world.flights:
        found += _told(flight.answer)
    for kv in found:
        if kv.create_revision:
            first[kv.key] = min(kv.create_revision, first.get(kv.key, kv.create_revision))
    return first


def _told(answer: Any) -> list[KeyValue]:
    """The keys that an answer tells."""
    if isinstance(answer, messages.Written):
        return [*(answer.keys or ()), *([answer.kv] if answer.kv else [])]
    if isinstance(answer, messages.Found):
        return [*answer.kvs.values()]
    if isinstance(answer, messages.PositionFound):
        return [kv for kv in (answer.own, answer.before) if kv is not None]
    if isinstance(answer, Snapshot):
        return answer.keys
    return []


def _forget_known(world: World) -> None:
    """Without a restore, no answer tells a lower revision than the one that was known when it was asked for."""
    for flight in world.flights:
        request = flight.request
        if getattr(request, "known", 0):
            flight.request = request._replace(known=0)
            core = flight.process.core
            core.reconciler._open = [flight.request if each is request else each for each in core.reconciler._open]
            if core.deletions._sent is request:
                core.deletions._sent = flight.request


def _since(moment: float, first: float) -> float:
    """The moment, or the first one that can be told apart."""
    return first if moment <= first else moment


def _place(flight: Flight) -> tuple[Any, ...]:
    actor = 0 if flight.actor is None else flight.actor.number
    return flight.process.number, actor, type(flight.request).__name__, flight.stage


def _is_idle(flight: Flight) -> bool:
    """Whether it only asks, for a session that is over."""
    core = flight.process.core
    return core.failure is not None and flight.sender is core and not isinstance(flight.request, messages.Delete)


def _is_over(world: World, name: str, token: tuple[int, int]) -> bool:
    """Whether all that may hold from now on was created later than this token."""
    tickets = [ticket for process in world.processes for ticket in process.core.tickets.values()]
    known = [ticket.created for ticket in tickets if ticket.queue.prefix == name]
    known += [kv.create_revision for kv in world.etcd.under(name)]
    known += [kv.create_revision for flight in world.flights for kv in _told(flight.answer)]
    return all(created is None or created > token[0] for created in known)


def dump(world: World) -> bytes:
    """The state, as bytes that are equal for equal states; times as distances from now, revisions as their order."""
    tidy(world)
    now, revisions = float(world.now), set[int]()

    def reduce_revision(value: Revision) -> Any:
        number = int(value)
        revisions.add(number)
        return _revision, (_WRITTEN + number,)

    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    pickler.dispatch_table = {
        **_ALWAYS, Revision: reduce_revision, Time: lambda value: (Time, (round(float(value) - now, 6),)),
    }  # fmt: skip
    pickler.dump(world)
    state = file.getvalue()
    for place, revision in enumerate(sorted(revisions), 1):  # only their order counts
        state = state.replace(_integer(_WRITTEN + revision), _integer(_RANKED + place))
    return state


def _integer(number: int) -> bytes:
    return pickle.BININT + number.to_bytes(4, "little")


def load(state: bytes) -> World:
    world: World = pickle.loads(state)
    return world
