"""Drives a session's core: with the threads of its callers, and with its own, which start when they are first needed.

A lock stands around the core; nothing that blocks, and no callback, is called with it held. A caller's thread sends
what its acquisition or release asks for. Beside gRPC's there are at most three threads:

- ``lock-lease`` renews the lease, and waits for each answer;
- ``lock-worker`` does all else that the core commands (`lock.session.worker`);
- ``lock-watch``, of the client, reads the watches, and grants (`lock.etcd.watches`).

Nothing of this runs in the main thread, where signal handlers come in between (`lock.runtime.interrupts`): its calls
are made by other threads, and those of tasks by the worker. What a signal handler or `__del__` may call (cancelling,
draining, giving up) takes no lock: it leaves a `note`, which is acted on before anything else that is done with it.
"""

import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

from lock.core import messages
from lock.core.acquisition import FAREWELL_S, Acquisition, Send, Sleep, Terms
from lock.core.cohort import CohortTurn
from lock.core.core import Core
from lock.core.expiry import Expiry
from lock.core.queue import Ticket
from lock.core.release import Release
from lock.errors import EtcdError, EtcdUnavailable
from lock.etcd.client import Client
from lock.etcd.transport import Call
from lock.model import Declaration
from lock.runtime.callbacks import Callbacks, Loss
from lock.runtime.clock import now
from lock.runtime.interrupts import InterruptSafeEvent
from lock.session.lease_thread import LeaseThread
from lock.session.worker import Worker

logger = logging.getLogger(__name__)

T = TypeVar("T")

SLEEP_S = 30.0  # at most: the clock of waits may stand still while the machine is suspended

Work = Acquisition | CohortTurn | Release
Steps = Generator[Work, None, T]  # what a recipe waits for, one after the other, and its result


class Sender(Protocol):
    """A part of the core that has sent a request, and is told what comes of it."""

    def answered(self, request: Any, answer: Any, now: float) -> None: ...

    def failed(self, request: Any, error: Any, now: float) -> None: ...

    def unanswered(self, request: Any) -> None:
        """One of the endpoints did not answer: it may do the request yet."""


class Timed(Protocol):
    """What a driver calls with the time, such as a method of the core."""

    def __call__(self, *, now: float) -> Any: ...


class Engine:
    """The core of one session and what drives it; `name` is the session's."""

    def __init__(self, client: Client, ttl: int, name: str) -> None:
        self.client = client
        self.name = name
        sent = now()
        lease = client.grant(ttl)
        self.core = Core(lease.id, lease.ttl, sent, owner=name)
        self.expiry = Expiry(self.core)
        self.lock = threading.Lock()
        self.loss = Loss()
        self.callbacks = Callbacks()
        self._identities: dict[Declaration, str] = {}
        self._notes: deque[Timed] = deque()
        calls = client.requests
        self._calls: dict[type, Callable[[Any], Call[Any]]] = {
            messages.Create: calls.create_key, messages.Delete: calls.delete_keys,
            messages.ListQueue: calls.list_queue, messages.FindPosition: calls.find_position,
            messages.ReadKeys: calls.read_keys, messages.ListLease: lambda _: calls.list_lease(lease.id),
            messages.TimeToLive: calls.time_to_live,
        }  # fmt: skip
        self.worker = Worker(self)
        self.lease = LeaseThread(self)
        self.worker.start()
        self.lease.start()
        cut_off = EtcdUnavailable(f"session {name} waits for no lock any more: its etcd client was closed")
        self._restored = partial(self.apply, self.core.restored)
        self._cut_off = partial(self.apply, self.core.refuse, cut_off)
        client.cluster_listeners.add(self._restored)
        client.close_listeners.add(self._cut_off)

    def identity(self, declared: Declaration, thread: str) -> bytes:
        """The value of a queue key: session, host, process, thread, and the time (JSON)."""
        who = self._identities.get(declared)
        if who is None:
            fields = {"session": self.name, "host": socket.gethostname(), "pid": os.getpid()}
            fields.update((field, value) for field, value in declared._asdict().items() if value is not None)
            who = self._identities[declared] = json.dumps(fields)[:-1]
        return f'{who}, "thread": {json.dumps(thread)}, "since": {time.time():.3f}}}'.encode()

    def begin(self, name: str, prefix: str, terms: Terms, value: bytes, **options: Any) -> Acquisition:
        with self.lock:
            return Acquisition(self.core, name, prefix, terms, value, now(), timeout=self.client.timeout, **options)

    def drive(self, work: Work) -> None:
        """Do the steps of an acquisition or a release in this thread, to its end. Raises what they raise."""
        woken: InterruptSafeEvent | None = None
        while True:
            step: Send | Sleep | None = self.apply(work.next)
            while isinstance(step, Send):
                step = self.exchange(work, step.request, step.timeout, then=work.next)
            if step is None:
                return
            if woken is None:
                woken = InterruptSafeEvent()
                work.wake_by(woken.set)
                self.warn_of_itself(work)
                continue  # its turn may have come before there was something to wake
            woken.wait(min(step.until - now(), SLEEP_S))
            woken.clear()

    def warn_of_itself(self, work: Work) -> None:
        """Log that a thread or task waits for a lock that it holds itself."""
        if not isinstance(work, Acquisition | CohortTurn):
            return
        with self.lock:
            held_at = work.waits_for_itself()
        if held_at is not None:
            logger.warning(
                "lock %r: a thread or task that holds it, acquired at %s, acquires it again at %s and waits for itself",
                work.name, held_at, work.where,
            )  # fmt: skip

    def exchange(
        self,
        sender: Sender,
        request: messages.Request,
        timeout: float | None = None,
        *,
        answer_of: Callable[[], Any] | None = None,
        then: Timed | None = None,
    ) -> Any:
        """Send a request, give the part of the core that wants it the answer, or why there is none; and do `then`.

        `answer_of` returns the answer if the request was sent before.
        """
        receive: Callable[..., Any] = sender.answered
        try:
            if answer_of is not None:
                answer = answer_of()
            else:
                call, unanswered = self._calls[type(request)](request), partial(sender.unanswered, request)
                answer = self.client.call_here(call, timeout, unanswered)
        except EtcdError as error:
            receive, answer = sender.failed, error
        except BaseException as error:  # an interrupt, a machine out of memory: nobody knows how far it came
            sender.unanswered(request)
            self.apply(sender.failed, request, EtcdUnavailable(f"a call of etcd has failed: {error!r}"))
            raise
        return self.apply(receive, request, answer, then=then)

    def note(self, do: Timed) -> None:
        """Have a method called with the time, before any other; without an answer.

        Takes no lock and never waits: any thread may call it, at any moment.
        """
        self._notes.append(do)
        self.worker.wake()

    def apply(self, method: Callable[..., Any], *args: Any, then: Timed | None = None) -> Any:
        """Call a method of the core with the time as its argument `now`; and `then`, with the lock still held."""
        try:
            with self.lock:
                if self._notes:
                    self._act_on_notes()
                moment = now()
                result = method(*args, now=moment)
                return result if then is None else then(now=moment)
        finally:
            self.flush()

    def _act_on_notes(self) -> None:
        while self._notes:
            self._notes.popleft()(now=now())

    def abandon(self, acquisition: Acquisition | CohortTurn) -> None:
        """It is over, however far it has come: no key and no hold is left behind. Never raises; see `note`."""
        if not self.client.forked():
            self.note(acquisition.leave)

    def send(self, sender: Sender, request: messages.Request, timeout: float | None = None) -> Future[Any]:
        """Send a request, whose answer is for `exchange`."""
        return self.client.send(self._calls[type(request)](request), timeout, partial(sender.unanswered, request))

    def release(self, tickets: Sequence[Ticket], *, wait: bool) -> Release:
        """The end of holds, to `drive`; within the client's timeout."""
        until = now() + self.client.timeout
        return Release(self.core, tickets, until, waits=wait, is_closed=lambda: self.client.closed)

    def check(self, ticket: Ticket) -> None:
        """Raise why a hold is lost, if it is: also if the session's threads are late."""
        self.apply(self.core.poll)
        self.apply(self.core.check, ticket)

    def loss_of(self, ticket: Ticket) -> Loss:
        with self.lock:
            if ticket.loss is None:
                ticket.loss = Loss()
            if ticket.is_lost:
                ticket.loss.event.set()
            return ticket.loss

    def close(self, reason: str, until: float) -> None:
        """End the session by that time; the lease is revoked, which frees all that is held and queued."""
        first = self.apply(lambda now: self.core.lose(reason))
        self.lease.stop()
        if first:
            self.lease.revoke(_left(until))
        self.client.cluster_listeners.discard(self._restored)
        self.client.close_listeners.discard(self._cut_off)
        self.worker.wake()
        for thread in (self.worker, self.lease):
            if thread is not threading.current_thread():
                thread.join(_left(until))
        self.callbacks.finish(_left(until))

    def flush(self) -> None:
        """Wake those whose tickets have changed, and have the worker do what the core wants; without the lock."""
        core, outbox = self.core, self.core.outbox
        if outbox.changes:
            with self.lock:
                changes, outbox.changes = outbox.changes, []
            losses: list[Loss] = []
            for each in changes:
                if each.wake is not None:
                    each.wake()
                if isinstance(each, Ticket) and each.loss is not None and each.is_lost:
                    each.loss.event.set()
                    losses.append(each.loss)
            for loss in losses:  # whose listeners are called when all are awake
                loss.notify()
        if core.failure is not None and not self.loss.event.is_set():
            self.loss.notify()
            self.lease.wake()
            self.worker.wake()
        if outbox.commands or outbox.is_early:
            outbox.is_early = False
            self.worker.wake()

    def poll(self, commands: deque[messages.Command]) -> float:
        """Do what is due, and add what the worker has to do; when to call it again."""
        with self.lock:
            self._act_on_notes()
            due, outbox = self.core.poll(now()), self.core.outbox
            commands += outbox.commands
            outbox.commands.clear()
            outbox.is_early = False
        self.flush()
        return due


def _left(until: float) -> float:
    """The seconds until then; some for each, so that a late one is not refused before it is sent."""
    return max(until - now(), FAREWELL_S)
