"""What may go wrong in a small world, one move for each; the name of a move is that of its function."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from lock.core import messages
from lock.core.queue import Ticket
from lock.errors import EtcdUnavailable, LockCancelled, LockError
from tests.lock.core.small_world import STRANGER, TTL_S, Actor, Flight, Key, Process, Time, World

Move = tuple[Any, ...]
KINDS = (  # those with the most histories are the last
    "lose", "delay", "repeat", "tell_twice", "forget", "kill", "renew_late", "jump", "drain", "cancel", "abandon",
    "interrupt", "cut", "leave_out", "delete_by_hand", "queue_as_go_does", "restore", "meddle", "meddle_with_turn",
    "pause", "starve",
)  # fmt: skip


def faults_of(world: World) -> list[Move]:
    """All that may go wrong now, of the kinds that the world has."""
    found: list[Move] = []
    for place, flight in enumerate(world.flights):
        if flight.process.state == "runs" and flight.stage in ("sent", "done"):
            found.append(("lose", place))
            if flight.stage == "sent" and isinstance(flight.request, messages.Create | messages.Delete):
                found += [("delay", place), ("repeat", place)]
            if flight.stage == "done" and flight.sender is flight.process.core:
                found.append(("tell_twice", place))
            if isinstance(flight.answer, messages.LeaseKeys) and flight.answer.keys:
                found.append(("forget", place))
    for process in world.processes:
        if process.state == "runs":
            found += _faults_of_process(world, process)
    for (number, prefix), watch in world.etcd.watches.items():
        if watch.stage == "open":
            found.append(("cut", number, prefix))
            if any(event.deleted for events in watch.pending[:1] for event in events):
                found.append(("leave_out", number, prefix))
    found += [("delete_by_hand", key) for key in world.etcd.keys]
    names = {
        name for process in world.processes for actor in process.actors for want in actor.wants for name in want.names
    }
    found += [("queue_as_go_does", name) for name in sorted(names) if name + STRANGER not in world.etcd.keys]
    found.append(("restore",) if world.etcd.backup else ("back_up",))
    kinds = world.plan.kinds
    return [move for move in found if not kinds or move[0] in kinds]


def _faults_of_process(world: World, process: Process) -> list[Move]:
    number, found = process.number, list[Move]()
    if process.core.failure is None:
        lease = ["renew_late", "starve"] if process.core.remaining(world.now) > 1.0 else []  # time never runs back
        found += [(kind, number) for kind in ["pause", "kill", *lease, "jump", "drain"]]
    for actor in process.actors:
        if actor.state in ("asks", "waits", "woken") and actor.current is not None:
            found += [("cancel", number, actor.number), ("abandon", number, actor.number)]
            if not actor.want.turn:
                found.append(("interrupt", number, actor.number))
        turn = actor.holds[-1].turn if actor.holds else None
        if turn is not None or (actor.current is not None and actor.want.turn):
            found += [("meddle_with_turn", number, actor.number, what) for what in ("end", "fence", "next")]
        if turn is not None:
            found.append(("meddle_with_turn", number, actor.number, "leave"))
    for key in process.core.tickets:
        whats = ["contended", "expire_in", "check"]
        if not (process.cohort.turn or process.cohort.is_lingering or process.cohort.waits):
            whats += ["fence", "release", "leave", "cancel"]  # of a cohort's ticket, callers reach these by their turns
        found += [("meddle", number, key, what) for what in whats]
    return found


# Calls


def lose(world: World, place: int) -> None:
    """A request that etcd does not get, or an answer that does not come back: the endpoint did not answer."""
    flight = world.flights.pop(place)
    _doubt(flight)
    _fail(flight)


def delay(world: World, place: int) -> None:
    """A write that is given up, and arrives all the same, at any time."""
    flight = world.flights[place]
    world.flights[place] = Flight(flight.process, flight.request, None, None, "late")
    _doubt(flight)
    _fail(flight)


def repeat(world: World, place: int) -> None:
    """A write that one endpoint did not answer and another one did: the first may yet do it once more."""
    flight = world.flights[place]
    world.flights.append(Flight(flight.process, flight.request, None, None, "late"))
    _doubt(flight)


def tell_twice(world: World, place: int) -> None:
    """An answer that is told once more later."""
    flight = world.flights[place]
    again = Flight(flight.process, flight.request, flight.sender, None, "again", copy.copy(flight.answer))
    world._answer(place)
    world.flights.append(again)


def forget(world: World, place: int) -> None:
    """A lease's list lacks a key, as a new leader's may."""
    answer = world.flights[place].answer
    world.flights[place].answer = answer._replace(keys=answer.keys[1:])


def _doubt(flight: Flight) -> None:
    if flight.sender is not None:
        flight.sender.unanswered(flight.request)


def _fail(flight: Flight) -> None:
    process = flight.process
    process.tell(flight, EtcdUnavailable("lost"))
    process.go_on(flight)
    process.flush()


# Processes


def pause(world: World, number: int) -> None:
    """A process stands still beyond the end of its lease."""
    world.process(number).state = "paused"
    world.run_to(world.now + TTL_S + 1)


def kill(world: World, number: int) -> None:
    """kill -9."""
    process = world.process(number)
    process.state = "dead"
    for key in [key for key in world.etcd.watches if key[0] == number]:
        del world.etcd.watches[key]
    world.flights = [each for each in world.flights if each.process is not process or each.stage in ("sent", "late")]
    for flight in world.flights:
        if flight.process is process:
            flight.stage, flight.actor = "late", None


def renew_late(world: World, number: int) -> None:
    """A renewal that etcd has done is answered behind the deadline, and only the holder has looked at the clock."""
    process = world.process(number)
    sent = Time(process.core.deadline - 1.0)
    process.renews = False
    world.run_to(sent)
    ttl = world.etcd.keep_alive(number, sent)
    world.run_to(process.core.deadline + 0.5)
    process.renews = True
    world.check()  # a holder has asked how long it still holds
    process.core.renewed(sent, ttl, world.now)
    process.flush()


def starve(world: World, number: int) -> None:
    """The lease is renewed no more, the last answer was late, and soon it ends."""
    process, sent = world.process(number), world.now
    process.renews = False
    ttl = world.etcd.keep_alive(number, sent)
    world.run_to(process.core.deadline - 0.5)
    process.core.renewed(sent, ttl, world.now)
    process.flush()


def jump(world: World, number: int) -> None:
    """Its clock jumps beyond the end of its lease, which etcd has yet."""
    process = world.process(number)
    process.core.deadline = Time(world.now - 1.0)
    process.flush()


def drain(world: World, number: int) -> None:
    """The session waits for no lock any more."""
    process = world.process(number)
    process.core.refuse(LockCancelled("drained"), world.now)
    process.flush()


# Waits


def cancel(world: World, number: int, actor: int) -> None:
    """Another thread ends the wait."""
    process, current = world.process(number), world.actor(number, actor).current
    assert current is not None
    failure = LockCancelled("cancelled")
    if hasattr(current, "cancel"):
        current.cancel(failure, world.now)
    else:
        process.core.endings.cancel(current.ticket, failure, world.now)
    process.flush()


def abandon(world: World, number: int, actor: int) -> None:
    """A task that is cancelled, or an interrupt: the wait is left where it stands."""
    process, one = world.process(number), world.actor(number, actor)
    assert one.current is not None
    one.current.leave(world.now)
    _go_away(world, process, one)


def interrupt(world: World, number: int, actor: int) -> None:
    """A KeyboardInterrupt leaves no trace of the wait but a ticket, whose waiter is collected."""
    one: Any = world.actor(number, actor)
    one.current.ticket.waiter = _collected
    _go_away(world, world.process(number), one)


def _collected() -> None: ...


def _go_away(world: World, process: Process, one: Actor) -> None:
    for flight in world.flights:
        if flight.actor is one:
            flight.actor = None  # its answer is told all the same
    process.release(one)
    process.flush()


# etcd


def cut(world: World, number: int, prefix: str) -> None:
    """A watch breaks; what it has not told it never tells."""
    watch = world.etcd.watches[number, prefix]
    watch.stage, watch.pending = "cut", []


def leave_out(world: World, number: int, prefix: str) -> None:
    """A watch does not tell a DELETE (etcd issues 17529, 18089)."""
    watch = world.etcd.watches[number, prefix]
    watch.pending[0] = [event for event in watch.pending[0] if not event.deleted]
    if not watch.pending[0]:
        del watch.pending[0]


def delete_by_hand(world: World, key: str) -> None:
    """A key is deleted by hand."""
    kv = world.etcd.keys[key]
    for process in world.processes:
        process.deleted_by_hand.append((key, kv.create_revision))
        for held in (held for actor in process.actors for held in actor.holds):
            held.excused = held.excused or (held.ticket.key, held.token[0]) == (key, kv.create_revision)
    world.etcd.remove([key])


def queue_as_go_does(world: World, name: str) -> None:
    """Another client queues, and holds when its key is the first."""
    world.etcd.put(Key(name + STRANGER), b"", 0)


def back_up(world: World) -> None:
    """etcd is saved; the restore is still to come."""
    etcd = world.etcd
    etcd.backup = etcd.revision, dict(etcd.keys), dict(etcd.leases)
    world.faults += 1


def restore(world: World) -> None:
    """etcd goes back to the backup: later keys are gone, and keys that were deleted are there again."""
    etcd = world.etcd
    assert etcd.backup is not None
    revision, keys, leases = etcd.backup
    if revision == etcd.revision:
        return
    etcd.revision, etcd.keys = revision, dict(keys)
    etcd.leases = {lease: (ttl, world.now + ttl) for lease, (ttl, _) in leases.items()}  # as when etcd starts
    etcd.remove([key for key in etcd.keys if key.endswith(STRANGER)])  # those may be gone by now
    world.highest.clear()
    world.fenced.clear()
    for process in world.processes:
        process.was_restored = True
        process.restored_to = revision
        for actor in process.actors:
            actor.since = 0
        for held in (held for actor in process.actors for held in actor.holds):
            held.excused = True
    for watch in world.etcd.watches.values():
        watch.stage, watch.pending = "cut", []


# Any public method, at any moment


def meddle(world: World, number: int, key: str, what: str) -> None:
    """A method of the core, on a ticket in any stage."""
    process = world.process(number)
    core, ticket = process.core, process.core.tickets[key]
    arguments: dict[str, list[Any]] = {"cancel": [LockCancelled("cancelled")], "expire_in": [0.0, "max_hold"]}
    if what in ("release", "leave"):
        _over(process, ticket)
    with contextlib.suppress(LockError):
        owner = process.expiry if what == "expire_in" else core.endings if what in ("leave", "cancel") else core
        is_to_send = getattr(owner, what)(ticket, *arguments.get(what, []), world.now)
        if what == "release" and is_to_send:
            process.send(core.deletions.take([ticket]), core.deletions)
        if what == "fence":
            process.note_fence(ticket)
    process.flush()


def meddle_with_turn(world: World, number: int, actor: int, what: str) -> None:
    """A method of a turn, called by another than its driver."""
    process, one = world.process(number), world.actor(number, actor)
    turn: Any = one.holds[-1].turn if one.holds else one.current
    with contextlib.suppress(LockError):
        if what == "fence":
            turn.fence(world.now)
            process.note_fence(turn.ticket, turn.number)
        elif what == "next":
            if turn.is_held:
                turn.next(world.now)
        else:
            if turn.cohort.turn is turn:
                _over(process, turn.ticket)
            ticket = getattr(turn, what)(world.now)
            if ticket is not None and process.core.release(ticket, world.now):
                process.send(process.core.deletions.take([ticket]), process.core.deletions)
    process.flush()


def _over(process: Process, ticket: Ticket) -> None:
    """Whoever held it holds it no more."""
    for actor in process.actors:
        for held in actor.holds:
            held.excused = held.excused or held.ticket is ticket
