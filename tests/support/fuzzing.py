"""One process of the fuzz: it calls every public method of sessions, recipes and holds at any moment, from anywhere.

``python -m tests.support.fuzzing ENDPOINT SECONDS SEED FILE``. Threads and tasks acquire and release; others call
whatever they like on holds of any age and on shared locks; so do a signal handler and `__del__`; sessions are closed,
drained and revoked; keys are deleted, and etcd is silent for a while.

What the library may raise is a `LockError`. All else is a fault, as is a call that takes too long or spins. Faults go
to standard error, and end it with exit code 1. The oracle is outside: each exclusive hold leaves a line in FILE, with
its token and the times between which it has passed `ensure()`: see `overlaps`.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.stack.proxy import Proxy
from lock import (
    CohortMutex,
    KeyValue,
    LockError,
    MultiLock,
    Mutex,
    ReadWriteLock,
    ReentrantMutex,
    Semaphore,
    Session,
    aio,
    connect,
)
from lock.recipes.cohort import YieldingCohortMutex
from tests.support.lock import delete

NAMES = ("fuzz/a", "fuzz/b")  # exclusive over all recipes that use them
TTL_S = 3
CALL_S = 30.0  # far more than any call may take: its timeout is less than a second, the client's two
SPIN_S = 0.3  # CPU time of one thread in one call, which a call that waits does not need
SWITCH_S = 1e-5  # how long a thread keeps the interpreter in some processes; Python's default is 5 ms
LOOK_S = 1.0  # between two looks for what hangs
TASK = "a task"
THREADS = 3


class Span(NamedTuple):
    """When one hold was surely held: it passed `ensure()` at both times, and has one key in etcd for all of them."""

    name: str
    token: list[int]
    lease: int
    first: float
    last: float


class Robbery(NamedTuple):
    """From this time on a lease, or the key of a create revision, was taken away by hand: its holder hears late."""

    lease: int
    revision: int
    time: float

    def took(self, span: Span) -> bool:
        return span.last >= self.time and (span.lease == self.lease or span.token[0] == self.revision)


def overlaps(file: Path) -> list[tuple[Span, Span]]:
    """The pairs of holds of one name that were both held at one moment, or whose tokens don't rise with the time."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    robberies = [Robbery(*line) for line in lines if len(line) == len(Robbery._fields)]
    spans = [Span(*line) for line in lines if len(line) == len(Span._fields)]
    pairs, latest = [], dict[str, Span]()
    for span in sorted(spans, key=lambda span: span.first):
        if any(robbery.took(span) for robbery in robberies):
            continue
        before = latest.get(span.name)
        if before is not None and (span.first < before.last or span.token <= before.token):
            pairs.append((before, span))
        latest[span.name] = span if before is None else max(before, span, key=lambda each: each.last)
    return pairs


class Fuzz:
    """What the threads, tasks, handlers and collected objects of one process share."""

    def __init__(self, endpoint: str, seconds: float, seed: int, file: Path) -> None:
        self.chance = random.Random(seed)
        self.ends = time.monotonic() + seconds
        self.proxy = Proxy(endpoint).__enter__()
        self._ended = threading.Event()
        self.client = connect(self.proxy.endpoint, timeout=1.0)
        self.outsider = connect(endpoint)
        self.holds: deque[Any] = deque(maxlen=30)  # of any age
        self.faults: list[str] = []
        self.counts = {"holds": 0, "calls": 0}
        self._file = os.open(file, os.O_APPEND | os.O_WRONLY)
        self._running: dict[int, tuple[float, str]] = {}
        self._places = itertools.count()
        self._handles = False
        self.client.status(timeout=CALL_S)  # a busy machine may take longer for the first answer than for any later one
        self.renew()

    def renew(self) -> None:
        """Another session, and recipes on it."""
        chance = self.chance
        self.session = session = Session(self.client, ttl=TTL_S, name=f"fuzz-{os.getpid()}")
        max_hold = chance.choice([None, 0.05, 5.0])
        self.alone: list[Any] = [
            Mutex(session, NAMES[0], max_hold=max_hold),
            chance.choice([CohortMutex, YieldingCohortMutex])(
                session, NAMES[0], linger=chance.choice([0.0, 0.1, 0.5]), batch=chance.choice([1, 64])
            ),
            ReentrantMutex(session, NAMES[1], max_hold=max_hold), ReadWriteLock(session, NAMES[1]).write,
            MultiLock(session, NAMES),
        ]  # fmt: skip
        self.shared: list[Any] = [Semaphore(session, "fuzz/s", 2), ReadWriteLock(session, "fuzz/rw").read]
        self.tasks: list[Any] = [
            aio.Mutex(session, NAMES[0]), aio.CohortMutex(session, NAMES[1], linger=0.05),
            aio.ReentrantMutex(session, NAMES[1]), aio.MultiLock(session, NAMES), aio.Semaphore(session, "fuzz/s", 2),
        ]  # fmt: skip
        self.losses = chance.choice([0.0, 0.0, 0.1])  # the share of its holds that end with the session
        self.favourite = chance.choice(self.alone)  # of its threads, so that they meet

    def cancels(self) -> list[Callable[[], object]]:
        """What may be called at any moment."""
        return [each.cancel for each in self.alone + self.tasks]

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends or bool(self.faults)

    def fault(self, text: str) -> None:
        self.faults.append(text)
        print(text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def watched(self, what: object) -> Iterator[None]:
        """Any error but a `LockError` is a fault, and so is spinning; `find_late` finds what never ends."""
        place, began, cpu = next(self._places), time.monotonic(), time.thread_time()
        self._running[place] = began, repr(what)
        try:
            yield
        except (LockError, asyncio.CancelledError):
            pass
        except GeneratorExit:  # of a task whose loop was closed
            raise
        except BaseException as error:
            self.fault(f"{what!r} raised {error!r}")
            raise
        finally:
            self._running.pop(place, None)
            self.counts["calls"] += 1
            spent = time.thread_time() - cpu
            if not isinstance(what, str) and spent > SPIN_S + 0.1 * (time.monotonic() - began):
                self.fault(f"{what!r} spun for {spent:.1f} s")

    def find_late(self, *others: str) -> None:
        """What takes too long is a fault, and ends the process."""
        late = [what for began, what in list(self._running.values()) if time.monotonic() > began + CALL_S]
        if (late or others) and not self.faults:
            faulthandler.dump_traceback(all_threads=True)
            self.fault(f"never ends: {[*late, *others]}")
            os._exit(1)

    def note(self, held: Any, tokens: dict[str, Any], first: float) -> None:
        """Write down how long a hold was surely held."""
        last = time.monotonic()
        held.ensure()
        self.counts["holds"] += 1
        for name, token in tokens.items():
            if name in NAMES:
                token = list(token) if isinstance(token, tuple) else [token, 0]
                session = getattr(held, "_held", held)._session
                self._write(Span(name, token, session.lease_id, first, last))

    def _write(self, line: Span | Robbery) -> None:
        os.write(self._file, f"{json.dumps(line)}\n".encode())

    # What is done with a hold, a lock, a session

    def use(self, held: Any) -> None:
        """In the thread that has acquired it."""
        self.holds.append(held)
        held.ensure()
        first = time.monotonic()
        time.sleep(self.chance.choice([0, 0, 0.001, 0.02]))
        self.meddle()
        self.note(held, tokens_of(held), first)
        if self.chance.random() < self.losses:  # then whoever calls next, mostly to release it, meets the loss
            driven = held._session._engine
            driven._notes.append(lambda now: driven.core.lose("was lost"))

    def meddle(self) -> None:
        """Any method of any hold or lock; the wait of another one may end by it."""
        chance = self.chance
        held = chance.choice(list(self.holds)) if self.holds else None
        with self.watched(call := chance.choice(chance.choice(self._calls(held)))):
            call()

    def _calls(self, held: Any) -> list[list[Callable[[], object]]]:
        of_hold: list[Callable[[], object]] = [] if held is None else [
            held.ensure, held.remaining, lambda: held.lost.is_set(), lambda: held.on_lost(nothing), lambda: repr(held),
            lambda: held.released,
            *([lambda: held.release(wait=False)] if hasattr(held, "_ticket") else []),
            *([lambda: held.on_contended(nothing)] if hasattr(held, "on_contended") else []),
            *(getattr(held, each) for each in ("contended", "is_owner", "downgrade") if hasattr(held, each)),
            *([] if isinstance(held, aio.AsyncHold) else [held.release, lambda: enter(held)]),
        ]  # fmt: skip
        recipe = self.chance.choice(self.alone + self.shared)
        of_lock = [
            lambda: recipe.acquire(timeout=0).release(), recipe.release, recipe.cancel, recipe.locked,
            recipe.contenders, lambda: recipe.acquire(timeout=0.01).release(),
        ]  # fmt: skip
        of_session: list[Callable[[], object]] = [
            self.session.ensure,
            self.session.remaining,
            lambda: self.session.on_lost(nothing),
        ]
        return [of_hold or of_lock, of_lock, of_session]

    def disturb(self) -> None:
        """What happens to a process from outside, and what ends a session."""
        chance, session = self.chance, self.session
        kvs = [kv for name in NAMES for kv in self.outsider.get_prefix(f"{name}/").keys]
        deeds: list[Callable[[], object]] = [
            lambda: self._rob(chance.choice(kvs) if kvs else None),
            self._stall, self._wake_all, self.cycle, gc.collect,
            session.cancel_waiters, session.close, lambda: self._revoke(session),
        ]  # fmt: skip
        if chance.random() < 0.4:
            deeds = deeds[-2:]  # what is most dangerous: the session ends while its threads meet
        with self.watched(deed := chance.choice(deeds)):
            deed()

    def _rob(self, kv: KeyValue | None) -> None:
        if kv is not None:
            self._write(Robbery(0, kv.create_revision, time.monotonic()))
            delete(self.outsider, kv.key, kv.create_revision)

    def _revoke(self, session: Session) -> None:
        self._write(Robbery(session.lease_id, 0, time.monotonic()))
        self.outsider.revoke(session.lease_id)

    def _stall(self) -> None:
        """etcd is silent, sometimes for longer than the client waits."""
        self.proxy.stall()
        time.sleep(self.chance.choice([0.3, 1.5]))
        self.proxy.resume()

    def _wake_all(self) -> None:
        """For nothing, as a ticket that begins anew wakes its waiter."""
        for ticket in list(self.session._engine.core.tickets.values()):
            if ticket.wake is not None:
                ticket.wake()

    def cycle(self) -> None:
        """Garbage whose `__del__` calls the library, wherever the collector runs."""
        garbage = Garbage(self)
        garbage.itself = garbage

    def handle(self, *_: object) -> None:
        """A signal handler: what docs/lock.md allows it."""
        if self._handles:
            return
        self._handles = True
        call = self.chance.choice(self.cancels())
        with self.watched("a signal handler"):
            call()
        self._handles = False

    # Those that acquire

    def work(self) -> None:
        """A thread."""
        while not self.is_over():
            is_favourite = self.chance.random() < 0.7
            recipe = self.favourite if is_favourite else self.chance.choice(self.alone + self.shared)
            timeout = self.chance.choice([0.0, 0.05, 0.5, 3.0, None])
            with self.watched(recipe):
                if self.chance.random() < 0.2 and hasattr(recipe, "try_acquire"):
                    held = recipe.try_acquire()
                    if held is not None:
                        with held:
                            self.use(held)
                else:
                    with recipe.acquire(timeout=timeout) as held:
                        self.use(held)

    async def task(self) -> None:
        """A task."""
        while not self.is_over():
            recipe = self.chance.choice(self.tasks)
            steps = asyncio.create_task(self._task_once(recipe))
            if self.chance.random() < 0.3:
                await asyncio.sleep(self.chance.choice([0, 0.001, 0.05]))
                steps.cancel()
            await asyncio.wait([steps])
            if not steps.cancelled():
                steps.result()

    async def _task_once(self, recipe: Any) -> None:
        with self.watched(TASK):
            async with recipe.acquire(timeout=self.chance.choice([0.0, 0.05, 0.5, None])) as held:
                self.holds.append(held)
                held.ensure()
                first = time.monotonic()
                await asyncio.sleep(self.chance.choice([0, 0.001, 0.02]))
                self.note(held, tokens_of(held), first)

    def loop(self) -> None:
        """Tasks, in loops that are closed in the middle."""
        while not self.is_over():
            loop = asyncio.new_event_loop()
            tasks = [loop.create_task(self.task()) for _ in range(3)]
            loop.run_until_complete(asyncio.sleep(self.chance.choice([0.2, 2.0])))
            if self.chance.random() < 0.5:
                for each in tasks:
                    each.cancel()
                loop.run_until_complete(asyncio.wait(tasks))
            else:
                for each in tasks:
                    each._log_destroy_pending = False  # type: ignore[attr-defined]  # left in the middle, on purpose
            loop.close()
            for place, (_, what) in list(self._running.items()):
                if what == repr(TASK):  # it never runs again
                    self._running.pop(place)

    def patrol(self) -> None:
        """A thread that disturbs."""
        while not self.is_over():
            time.sleep(self.chance.choice([0.01, 0.1, 0.3]))
            with self.watched("a disturbance"):  # in which etcd may not answer in time
                self.disturb()

    def keep(self) -> None:
        """A thread that makes another session where one is over."""
        while not self.is_over():
            time.sleep(0.05)
            session = self.session
            if session._engine.core.refusal or session.lost.is_set():
                with self.watched("a session's end"):
                    self.renew()
                    session.close()

    def watch(self) -> None:
        """A thread that finds what hangs."""
        while not self._ended.wait(LOOK_S):
            self.find_late()

    def run(self) -> None:
        """All of it; the main thread's part is a thread's, which signals interrupt."""
        sys.setswitchinterval(self.chance.choice([sys.getswitchinterval(), SWITCH_S]))
        signal.signal(signal.SIGALRM, self.handle)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.03)
        calls = [self.work] * THREADS + [self.loop, self.patrol, self.keep]
        threads = [threading.Thread(target=call, daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        threading.Thread(target=self.watch, daemon=True).start()
        self.work()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for thread in threads:
            thread.join(CALL_S + 15)
        self._ended.set()
        self.find_late(*(repr(thread) for thread in threads if thread.is_alive()))
        self.session.close()


class Garbage:
    """Calls the library when it is collected."""

    itself: Garbage

    def __init__(self, fuzz: Fuzz) -> None:
        self._fuzz = fuzz

    def __del__(self) -> None:
        fuzz = self._fuzz
        with fuzz.watched("__del__"):
            for cancel in fuzz.cancels():
                cancel()


def tokens_of(held: Any) -> dict[str, Any]:
    """The fencing token of each name that is held alone."""
    if hasattr(held, "tokens"):
        return dict(held.tokens)
    return {held.name: held.token} if hasattr(held, "token") else {}


def nothing() -> None:
    """A callback."""


def enter(held: Any) -> None:
    with held:
        held.ensure()


def main(endpoint: str, seconds: str, seed: str, file: str) -> int:
    # In a child that gRPC aborts, reading the frames of threads that are gone was a SIGSEGV.
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.disable(logging.ERROR)  # what is dropped, taken away or late is logged, as it should be
    fuzz = Fuzz(endpoint, float(seconds), int(seed), Path(file))
    fuzz.run()
    print(json.dumps(fuzz.counts), flush=True)
    os._exit(1 if fuzz.faults else 0)  # threads that hang would keep it


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
