"""KeyboardInterrupt at every call on the way through a lock: where Python raises it, one after the other."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

import lock
from lock import Client, MultiLock, Mutex, ReentrantMutex, Session
from tests.lock.support import WAIT_S, keys
from tests.waiting import wait_until

LIBRARY = str(Path(lock.__file__).parent)


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    """What is left over in a circle stays: nobody knows when it would be collected."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collector")
@pytest.mark.filterwarnings("ignore:.*dropped without a release:ResourceWarning")
@pytest.mark.parametrize(
    "make",
    [Mutex, ReentrantMutex, lambda session, name: MultiLock(session, [f"{name}/a", f"{name}/b"])],
    ids=["Mutex", "ReentrantMutex", "MultiLock"],
)
def test_an_interrupt_at_any_call_leaves_no_key(
    client: Client, session: Session, name: str, make: Callable[[Session, str], Mutex | MultiLock]
) -> None:
    """However far acquire, `with` and release have come: in the end the name is free."""
    locks = []  # they live on, and with them what they know of their holds
    for number in itertools.count(1):
        locks.append(make(session, f"{name}/{number}"))
        if not lock_and_interrupt(locks[-1], at=number):
            break
    wait_until(lambda: not keys(client, name))
    assert number > 50


def lock_and_interrupt(lock: Mutex | MultiLock, *, at: int) -> bool:
    """Lock and release, interrupted where this thread enters the library's `at`-th function; whether it has as many."""
    entered = itertools.count(1)

    def trace(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename.startswith(LIBRARY) and not swallows(frame) and next(entered) == at:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with lock.acquire(timeout=WAIT_S):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return next(entered) > at


def swallows(frame: FrameType | None) -> bool:
    """Whether this is called by a `__del__`, out of which Python lets no exception."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None
