"""aetcd's Lock, as the docstrings of `aetcd.locks` say. Its ``async with`` waits ten seconds, whatever is asked."""

# mypy: ignore-errors
# ruff: noqa: D101

import aetcd
from harness import AsyncLockAdapter, serve


class Aetcd(AsyncLockAdapter):
    distribution = "aetcd"

    def __init__(self, address):
        self.host, port = address.split(":")
        self.port = int(port)

    async def connect(self):
        self.client = aetcd.Client(host=self.host, port=self.port)
        await self.client.connect()

    async def acquire(self, name, ttl, timeout):
        lock = self.client.lock(name.encode(), ttl=ttl)
        return lock if await lock.acquire(timeout=timeout) else None

    async def release(self, lock):
        return await lock.release()

    async def held(self, lock):
        return await lock.is_acquired()

    async def block(self, name, ttl, timeout, body):
        async with self.client.lock(name.encode(), ttl=ttl):
            body()


serve(Aetcd)
