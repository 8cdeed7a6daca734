"""Time stands still and chance repeats itself, for all that a purchase does in this process.

Each purchase of each run draws the same numbers, and the clock says the same moment in all runs of a command, but for
what the explorer lets pass: guards may take what is old for free. The deadlines of the shop and of redis-py know
nothing of that, and the shop's own threads have the real clock. `install_chance` is called before anything else is
imported.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labs.steps.schedules.worker import SteppedWorker

SHORT_S = 1.0  # a wait that is shorter is a pause before another try, a longer one a deadline
POLL_S = 0.005  # the longest pause of a purchase that polls
FOREVER_S = 60.0
SHOP = ("app.guards.base", "app.locking.", "app.sales.", "app.telemetry.", "lock.", "logging", "redis.")

_Real = random.Random
real_sleep, real_monotonic = time.sleep, time.monotonic


class Chance:
    """Whose chance and clock this thread has."""

    # The stream of a purchase's thread; None for the shop's own.
    of_thread: Callable[[], random.Random | None] = staticmethod(lambda: None)
    # Seconds since the epoch, and of `time.monotonic`, as purchases see them at first.
    now: float = float(os.environ.get("SCHEDULES_NOW", 0)) or time.time()
    since_boot: float = float(os.environ.get("SCHEDULES_SINCE_BOOT", 0)) or real_monotonic()
    passed: Any = (0.0,)  # one number, of seconds since then; the same for all instances of a world
    moved: float = 0.0  # the same for this process alone, and also for the deadlines of the shop and of redis-py
    # Is told how much had passed when a purchase looked at a clock.
    saw: Callable[[float], None] = staticmethod(lambda passed: None)
    offset: float = 0.0  # by which the clock of `lock` is moved on


def stream(seed: str) -> random.Random:
    """What a purchase draws from; the same for the same seed."""
    return _Real(seed)


class _Streams(_Real):
    """The functions of `random`: each thread's own stream, if it has one."""

    def random(self) -> float:
        own = Chance.of_thread()
        return super().random() if own is None else own.random()

    def getrandbits(self, k: int, /) -> int:
        own = Chance.of_thread()
        return super().getrandbits(k) if own is None else own.getrandbits(k)


class _Seeded(_Real):
    """A generator that is made without a seed."""

    def __init__(self, x: Any = None) -> None:
        own = Chance.of_thread()
        super().__init__(own.random() if x is None and own else x)


def _urandom(size: int, /) -> bytes:
    own = Chance.of_thread()
    return _real_urandom(size) if own is None else own.randbytes(size)


_real_urandom = os.urandom


def install_chance() -> None:
    """Put these in the place of the standard library's, and a clock for `lock` that can be moved."""
    streams = _Streams()
    for name in random.__all__:
        if isinstance(getattr(getattr(random, name), "__self__", None), _Real):
            setattr(random, name, getattr(streams, name))
    random._inst, random.Random = streams, _Seeded  # type: ignore[misc]
    os.urandom = random._urandom = _urandom  # type: ignore[attr-defined]
    tempfile._Random = _Seeded  # type: ignore[attr-defined]
    uuid._generate_time_safe = uuid._UuidCreate = None  # type: ignore[attr-defined]
    uuid.getnode()  # asks other programs, at first
    clock_gettime = time.clock_gettime
    time.clock_gettime = lambda clock: clock_gettime(clock) + Chance.offset


def install_time(pauses: SteppedWorker) -> None:
    """Have the clock stand still for purchases; who pauses asks and tells the worker."""
    for name in ("time", "monotonic", "perf_counter"):
        began = Chance.now if name == "time" else Chance.since_boot
        setattr(time, name, _standing(getattr(time, name), began))
        setattr(time, f"{name}_ns", _in_ns(getattr(time, f"{name}_ns"), getattr(time, name)))
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _of_now(getattr(time, name)))
    strftime = time.strftime
    time.strftime = lambda text, *times: strftime(text, *(times or (time.localtime(),)))
    datetime.datetime = _Datetime  # type: ignore[misc]
    asyncio.BaseEventLoop.time = lambda self: real_monotonic()  # type: ignore[method-assign]
    threading._time = real_monotonic  # type: ignore[attr-defined]
    time.sleep = _sleep(pauses)
    asyncio.sleep = _asyncio_sleep(pauses, asyncio.sleep)
    threading.Condition.wait = _wait(pauses, threading.Condition.wait)  # type: ignore[method-assign]
    event_wait = threading.Event.wait  # what is set between two slices of a wait wakes nobody
    threading.Event.wait = lambda self, timeout=None: event_wait(self, timeout) or self.is_set()  # type: ignore[method-assign]


def begin_run() -> None:
    """Forget what would go on from one run to the next."""
    Chance.moved = 0.0
    tempfile._name_sequence = None  # type: ignore[attr-defined]
    for name in ("_last_timestamp", "_last_timestamp_v7", "_last_counter_v7"):
        if hasattr(uuid, name):
            setattr(uuid, name, None if name != "_last_counter_v7" else 0)


def _standing(real: Callable[[], float], began: float) -> Callable[[], float]:
    def tell(depth: int = 1) -> float:
        caller = _module(depth + 1)
        if Chance.of_thread() is None or caller.startswith("grpc"):  # its calls end by the real time
            return real()
        if caller.startswith(SHOP):
            return began + Chance.moved
        Chance.saw(Chance.passed[0])
        return began + Chance.moved + float(Chance.passed[0])

    return tell


def _in_ns(real: Callable[[], int], seconds: Callable[[int], float]) -> Callable[[], int]:
    return lambda: real() if Chance.of_thread() is None else int(seconds(2) * 1e9)


def _module(depth: int) -> str:
    """Of the frame so far above this one."""
    return str(sys._getframe(depth).f_globals.get("__name__", ""))


def _of_now(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *seconds: real(*(seconds or (time.time(),)))


class _OfDatetime(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)


_datetime = datetime.datetime


class _Datetime(_datetime, metaclass=_OfDatetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _datetime.now(tz) if Chance.of_thread() is None else _datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls) -> Any:
        return cls.now()

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime.timezone.utc).replace(tzinfo=None)


def _sleep(pauses: SteppedWorker) -> Callable[[Any], None]:
    def sleep(seconds: Any) -> None:
        makes = pauses.makes_purchase()
        if makes is None or (not makes and seconds >= SHORT_S):
            return real_sleep(seconds)
        if not makes:
            pauses.await_time(lambda: real_sleep(POLL_S))
        pauses.note()
        return real_sleep(min(seconds, POLL_S))

    return sleep


def _asyncio_sleep(pauses: SteppedWorker, real: Any) -> Any:
    async def sleep(delay: Any, *result: Any, **results: Any) -> Any:
        if is_short := bool(delay) and delay < SHORT_S and pauses.makes_purchase() is not None:
            pauses.note()
        return await real(min(delay, POLL_S) if is_short else delay, *result, **results)

    return sleep


def _wait(pauses: SteppedWorker, real: Any) -> Any:
    def wait(self: threading.Condition, timeout: Any = None) -> Any:
        is_of_grpc = _module(2).startswith("grpc")  # whose waits spin
        if timeout is None or timeout <= 0 or is_of_grpc or (makes := pauses.makes_purchase()) is None:
            return real(self, timeout)
        if timeout >= SHORT_S:
            return real(self, max(timeout, FOREVER_S))
        if not makes and pauses.await_time(lambda: real(self, POLL_S)):
            return True
        pauses.note()
        return real(self, min(timeout, POLL_S))

    return wait
