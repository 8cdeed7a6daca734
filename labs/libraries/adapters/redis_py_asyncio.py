"""redis-py's Lock with asyncio, as the docstring of `redis.asyncio.Redis.lock` says."""

# mypy: ignore-errors
# ruff: noqa: D101

import redis.asyncio
from harness import AsyncLockAdapter, serve


class RedisPyAsyncio(AsyncLockAdapter):
    distribution = "redis"

    def __init__(self, address):
        self.address = address

    async def connect(self):
        self.client = redis.asyncio.Redis.from_url(f"redis://{self.address}")

    async def acquire(self, name, ttl, timeout):
        lock = self.client.lock(name, timeout=ttl, blocking_timeout=timeout)
        return lock if await lock.acquire() else None

    async def release(self, lock):
        await lock.release()

    async def held(self, lock):
        return await lock.owned()

    async def block(self, name, ttl, timeout, body):
        async with self.client.lock(name, timeout=ttl, blocking_timeout=timeout):
            body()


serve(RedisPyAsyncio)
