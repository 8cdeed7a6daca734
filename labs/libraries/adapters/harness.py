"""The common half of the adapters: JSON lines on standard input and output, a thread or a task for each contender.

Runs in the environment of the library under test, so it needs the standard library alone: ``harness.py NAME ADDRESS``
serves the class `Adapter` of the module NAME beside it.

A request is ``{"id": 1, "do": "acquire", "contender": "A", "name": "x", "ttl": 3, "timeout": null}``, its response
``{"id": 1, "result": ...}``, ``{"id": 1, "error": "TYPE: text"}``, or ``{"id": 1, "offered": false}`` where the library
does not have that. The requests of one contender are served one by one, those of several at once.
"""

import asyncio
import contextlib
import importlib.metadata
import inspect
import json
import os
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

CONNECTIONS = 250  # of a pool: one for each waiter of the largest trial


class NotOffered(Exception):
    """The library has no such thing in its documented interface."""


class LockAdapter:
    """A library whose locks have the calls of `threading.Lock`; an adapter overrides what its library has otherwise.

    A class with `tasks` has coroutines instead. `name` is a lock's name, `ttl` and `timeout` are seconds, `None` waits
    for ever. A hold is what `acquire` returns: the lock, or `None` if it was not acquired.
    """

    packages = ()  # whose versions are reported
    tasks = False
    gives_up = ()  # the error that ends a wait whose time is over

    def __init__(self, address):
        """Connect; `address` is HOST:PORT, or several with commas between."""

    def lock(self, name, ttl):
        """A lock that is not acquired yet."""
        raise NotOffered

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl)
        return lock if lock.acquire(timeout=timeout) else None

    def attempt(self, name, ttl):
        """The call that tries once and does not wait."""
        lock = self.lock(name, ttl)
        return lock if lock.acquire(blocking=False) else None

    def release(self, hold):
        """Release as the documentation says; an error is passed on."""
        return hold.release()

    def held(self, hold):
        """What the library itself answers to «do I still hold it?»"""
        raise NotOffered

    def renew(self, hold):
        """The library's call that renews a hold and is left to its user; none if the library renews by itself."""
        raise NotOffered

    def token(self, hold):
        """The number that a resource can compare."""
        return

    def section(self, name, ttl, timeout):
        """What stands in the library's ``with`` statement; where that takes no timeout, it waits as it does."""
        return self.lock(name, ttl)


class AdapterService:
    """Serves the requests of one process."""

    def __init__(self, lock):
        self.lock, self.holds, self.output = lock, {}, threading.Lock()

    def answer(self, number, **response):
        with self.output:
            print(json.dumps({"id": number, **response}), flush=True)

    async def serve(self, request):
        """Do what is asked; the methods of an adapter for threads block, and each contender has its own thread."""
        number, do = request.pop("id"), getattr(self, request.pop("do"))
        try:
            self.answer(number, result=await do(**request))
        except NotOffered:
            self.answer(number, offered=False)
        except Exception as error:
            self.answer(number, error=f"{type(error).__name__}: {error}".strip())

    async def acquire(self, contender, name, ttl, timeout):
        hold = None
        with contextlib.suppress(self.lock.gives_up):
            wait = self.lock.attempt(name, ttl) if timeout == 0 else self.lock.acquire(name, ttl, timeout)
            hold = await settled(wait)
        if hold is not None:
            self.holds[contender] = hold
        return hold is not None

    async def release(self, contender):
        return await settled(self.lock.release(self.holds.pop(contender)))

    async def held(self, contender):
        return bool(await settled(self.lock.held(self.holds[contender])))

    async def renew(self, contender):
        await settled(self.lock.renew(self.holds[contender]))

    async def write(self, contender, file):
        """Write to the resource, unless the library says just before that the lock is lost."""
        is_held = True
        with contextlib.suppress(NotOffered):
            is_held = await self.held(contender)
        if is_held:
            append(file, contender, "write")
        return {"wrote": is_held}

    async def turn(self, contender, name, ttl, file, seconds, turns):
        """Take the lock several times, and append to the file when the section begins and ends."""
        for _ in range(turns):
            await self.acquire(contender, name, ttl, None)
            append(file, contender, "enter", self.lock.token(self.holds[contender]))
            await asyncio.sleep(seconds)
            append(file, contender, "leave")
            await self.release(contender)

    async def block(self, contender, name, ttl, timeout, file):
        section = self.lock.section(name, ttl, timeout)
        if self.lock.tasks:
            async with section:
                append(file, contender, "enter")
        else:
            with section:
                append(file, contender, "enter")

    async def repeat(self, contender, name, ttl, seconds):
        """How often a second it locks and unlocks a free name."""
        began, count = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            hold = await settled(self.lock.acquire(name, ttl, None))
            await settled(self.lock.release(hold))
            count += 1
        return count / (time.monotonic() - began)


async def settled(value):
    """The value, awaited where it can be."""
    return await value if inspect.isawaitable(value) else value


def append(file, contender, event, token=None):
    """One write to the end of a file, with the monotonic clock that all processes share."""
    line = json.dumps({"at": time.monotonic(), "who": contender, "event": event, "token": token}) + "\n"
    number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(number, line.encode())
    os.close(number)


def serve(name, address):
    """Serve standard input until it ends."""
    service = AdapterService(importlib.import_module(name).Adapter(address))
    versions = (f"{package} {importlib.metadata.version(package)}" for package in service.lock.packages)
    service.answer(0, result=", ".join(versions))  # it is ready
    if service.lock.tasks:
        asyncio.run(serve_with_tasks(service))
    contenders = defaultdict(partial(ThreadPoolExecutor, 1))
    for line in sys.stdin:
        request = json.loads(line)
        contenders[request["contender"]].submit(asyncio.run, service.serve(request))
    os._exit(0)  # a library's own threads would keep the process alive


async def serve_with_tasks(service):
    loop, tasks = asyncio.get_running_loop(), []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        tasks.append(asyncio.create_task(service.serve(json.loads(line))))


if __name__ == "__main__":
    from harness import serve  # adapters know the module by this name

    serve(*sys.argv[1:])
