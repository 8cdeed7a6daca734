"""Interrupt a program that locks, at random moments of its main thread: random_interrupts.py ENDPOINT NAME WAY NUMBER.

Another thread has to get the lock within seconds after each of them. Ends with 0 if it did.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from lock import Mutex, Session, aio, connect

LATE_S = 3.0


def lock_here(mutex: Mutex) -> None:
    while True:
        with mutex:
            pass
        with mutex.acquire(timeout=5) as hold:
            hold.ensure()
            hold.on_contended(list)


async def lock_in_a_loop(mutex: Mutex) -> None:
    lock_here(mutex)


async def lock_as_task(mutex: Mutex) -> None:
    tasks = aio.Mutex(mutex.session, mutex.name)
    while True:
        async with tasks:
            pass
        async with tasks.acquire(timeout=5) as hold:
            hold.ensure()


def run_until_complete(coroutine: Any) -> None:
    """As a careful program does: what is left of its tasks ends with the loop."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0))
        loop.close()


WAYS: dict[str, Callable[[Mutex], None]] = {
    "with": lock_here,
    "with, in a loop": lambda mutex: run_until_complete(lock_in_a_loop(mutex)),
    "asyncio.run": lambda mutex: asyncio.run(lock_as_task(mutex)),
    "run_until_complete": lambda mutex: run_until_complete(lock_as_task(mutex)),
}


def main() -> None:
    endpoint, name, way, number = sys.argv[1:]
    session, main, chance = Session(connect(endpoint)), threading.get_ident(), random.Random(7)
    mutex, ready, over = Mutex(session, name), threading.Event(), threading.Event()

    def interrupt() -> None:
        """Interrupt, and then take the lock; a loop that was interrupted may still have its tasks, which go on."""
        other = Mutex(session, name)
        for _ in range(int(number)):
            if not ready.wait(LATE_S):  # Python ignores an interrupt that meets a `__del__`
                signal.pthread_kill(main, signal.SIGINT)
                ready.wait(LATE_S) or os._exit(3)
            ready.clear()
            time.sleep(chance.uniform(0, 0.006))
            signal.pthread_kill(main, signal.SIGINT)
            try:
                other.acquire(timeout=LATE_S).release()
            except BaseException as error:
                print(error, other.contenders(), file=sys.stderr, flush=True)
                os._exit(1)
        over.set()
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    for _ in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
        try:
            ready.set()
            WAYS[way](mutex)
        except (KeyboardInterrupt, asyncio.CancelledError):
            pass
    os._exit(0 if session.remaining() else 2)


if __name__ == "__main__":
    main()
