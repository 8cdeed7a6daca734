"""Does for tasks what threads block for: each call is an operation, which the session's worker takes step by step.

So nothing of a session is touched by the loop's thread, which is often the main one. What etcd answers is told to the
core whether or not the task still waits for it: a task may be cancelled at any moment, its key is deleted, and a hold
that came too late is given back, in the background. So is that of a task whose loop was closed: at its turn, or when
the session compares its keys.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from lock.core.acquisition import Acquisition, Send, Sleep
from lock.errors import EtcdUnavailable, LockError, LockLost
from lock.recipes import hold as sync
from lock.recipes.attempt import Attempt
from lock.recipes.hold import Releasable
from lock.recipes.queued_lock import Acquirable
from lock.runtime.clock import now
from lock.runtime.interrupts import start_apart
from lock.session.engine import SLEEP_S, Engine, Steps, Work

T = TypeVar("T")
HeldT = TypeVar("HeldT", bound=Releasable)


def call_in(loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> bool:
    """Have the loop call this, from any thread; False if it was closed."""
    try:
        loop.call_soon_threadsafe(do)
    except RuntimeError:
        return False
    return True


def calling_task() -> object:
    """The task that runs now; `None` outside a loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class Operation(ABC, Generic[T]):
    """What a task awaits, and other threads do."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self.loop.create_future()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._is_left = False

    async def result(self) -> T:
        """What it comes to; a task that is cancelled leaves it, and it goes on or is undone."""
        self._start()
        try:
            await self._end
            if self._error is None:
                result = self._results[0]
                self._accept(result)
                self._results.clear()
                return result
        except BaseException:  # GeneratorExit too: the loop of this task is gone, and nothing can be awaited any more
            self._is_left = True
            self._leave()
            raise
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error, self

    @abstractmethod
    def _start(self) -> None:
        """Have it begun, by another thread."""

    def _accept(self, result: T) -> None:
        """It has come to the task."""

    def _leave(self) -> None:
        """The task waits no more; to be told to other threads."""

    def _settle(self, result: T | None = None, error: BaseException | None = None) -> None:
        """It is over; by the thread that does it."""
        self._error = error
        if error is None:
            self._results.append(result)  # type: ignore[arg-type]
        if not call_in(self.loop, self._wake):
            self._is_left = True
        if self._is_left:
            self._leave()

    def _wake(self) -> None:
        if not self._end.done():
            self._end.set_result(None)


class _Blocking(Operation[T]):
    def __init__(self, blocking: Callable[[], T]) -> None:
        super().__init__()
        self._blocking = blocking

    def _start(self) -> None:
        start_apart(self._run)

    def _run(self) -> None:
        try:
            self._settle(self._blocking())
        except BaseException as error:
            self._settle(error=error)


async def call(blocking: Callable[[], T]) -> T:
    """What a call returns that blocks: in a thread for it alone, for those of the loop may all wait for this lock."""
    return await _Blocking(blocking).result()


class Drive(Operation[T]):
    """The steps of a recipe, done for a task: by the worker, and by the thread of gRPC that receives an answer.

    While a request is on its way (`_is_sending`), this is that thread's alone.
    """

    def __init__(self, engine: Engine, steps: Steps[T]) -> None:
        super().__init__()
        self._engine = engine
        self._worker = engine.worker
        self._steps = steps
        self._wait: Work | None = None  # what is waited for
        self._slept_for: Work | None = None
        self._is_sending = False  # its request is in line or on its way
        self._until = 0.0  # what is in line is not sent after this

    def _start(self) -> None:
        self._engine.client.check_process()
        self._worker.do(partial(self._go_on, partial(next, self._steps)))

    # By the worker

    def _look(self) -> None:
        if self._wait is not None and not self._is_sending:
            if self.loop.is_closed():
                self._leave()
            self._take(partial(self._engine.apply, self._wait.next))

    def _begin(self, step: Send | Sleep) -> None:
        wait, was_sending, self._is_sending = self._wait, self._is_sending, isinstance(step, Send)
        assert wait is not None
        if isinstance(step, Send):
            self._until = now() + step.timeout
            self._worker.line.enter(partial(self._send, wait, step))
        elif was_sending:
            self._look()  # its turn may have come meanwhile
        else:
            self._worker.do_at(min(step.until, now() + SLEEP_S), self._look)
            if self._slept_for is not wait:
                self._slept_for = wait
                self._engine.warn_of_itself(wait)

    def _send(self, wait: Work, step: Send) -> bool:
        """Send the request that was in line, if there is time left; whether it was sent."""
        left = self._until - now()
        if left <= 0.0:
            error = EtcdUnavailable("not sent in time: earlier requests were not answered")
            self._take(partial(self._engine.apply, wait.failed, step.request, error, then=wait.next))
            return False
        sent = self._engine.send(wait, step.request, left)
        sent.add_done_callback(partial(self._answered, wait, step))
        return True

    # By any thread

    def _answered(self, wait: Work, step: Send, sent: Future[Any]) -> None:
        self._take(partial(self._engine.exchange, wait, step.request, answer_of=sent.result, then=wait.next))
        self._worker.line.leave()

    def _take(self, next_step: Callable[[], Send | Sleep | None]) -> None:
        """Do the next step of what is waited for."""
        try:
            step = next_step()
        except Exception as error:
            self._go_on(partial(self._steps.throw, error))
            return
        if step is None:
            self._go_on(partial(next, self._steps))
        elif self._worker is threading.current_thread():
            self._begin(step)
        else:
            self._worker.do(partial(self._begin, step))

    def _wake_wait(self) -> None:
        if not self._is_sending:  # else its answer comes, and it is looked at then
            self._worker.do(self._look)

    def _go_on(self, following: Callable[[], Work]) -> None:
        """Begin with what is waited for next, or end."""
        if self._wait is not None:
            self._wait.wake_by(None)
        try:
            wait = following()
        except BaseException as error:
            self._wait = None
            if isinstance(error, StopIteration):
                self._settle(error.value)
            else:
                self._settle(error=error)
            return
        self._wait = wait
        wait.wake_by(self._wake_wait)
        if isinstance(wait, Acquisition):
            wait.ticket.waiter = partial(_unless_closed, self.loop)
        self._take(partial(self._engine.apply, wait.next))


class Acquire(Drive[HeldT | None]):
    """What a recipe of `lock` acquires for a task, until a time; `None` if a try finds it taken."""

    def __init__(self, lock: Acquirable[HeldT], attempt: Attempt, until: float, **options: Any) -> None:
        super().__init__(lock.session._engine, lock._steps(attempt, until, **options))
        self._lock = lock
        self._attempt = attempt

    def _accept(self, held: HeldT | None) -> None:
        self._lock._accept(self._attempt, held)

    def _leave(self) -> None:
        self._attempt.stop()
        self._worker.do(self._undo)

    def _undo(self) -> None:
        self._until = 0.0
        if self._results:
            self._attempt.give_up(self._results.pop())


async def release(held: Releasable, owner: object, *, wait: bool = True) -> None:
    """Free what is held; a task that is cancelled here has freed it. `owner`: `None` for the task that awaits this."""
    await Drive(held._engine, held._release(owner or calling_task(), wait=wait)).result()


class Leaving:
    """What ``async with`` leaves, once: through what ``with`` would leave, by the worker; as `lock.recipes.hold`."""

    _sync: sync.Leaving

    async def __aexit__(self, *exc_info: object) -> None:
        turn = [self]
        try:
            lost = self._begin_to_leave(exc_info[1])
            if exc_info[0] is not GeneratorExit:  # or its loop was closed, and nothing can be awaited any more
                await Drive(self._sync._engine, self._sync._leave(turn, calling_task())).result()
        except BaseException as error:
            if exc_info[0] is None or not isinstance(error, LockError):  # else the error of the body matters more
                raise
        finally:
            if turn:  # an interrupt has come first
                start_apart(partial(self._sync._abandon, turn, calling_task()))
        if lost is not None:
            raise lost

    def _begin_to_leave(self, raised: object) -> LockLost | None:
        """The body is over, with this error; an error to raise in its place."""
        return None


def _unless_closed(loop: asyncio.AbstractEventLoop) -> object:
    """What waits, in a loop; `None` once the loop is closed, even if its tasks are kept."""
    return None if loop.is_closed() else loop
