"""redis-py's Lock with asyncio, as the docstrings of `redis.asyncio.Redis.lock` and `Lock` say.

https://redis.readthedocs.io/en/stable/lock.html, https://redis.readthedocs.io/en/stable/examples/asyncio_examples.html
"""

import redis.asyncio
from harness import CONNECTIONS, AsyncLockAdapter, serve


class RedisPyAsyncio(AsyncLockAdapter):
    packages = ("redis",)

    def __init__(self, address):
        self.address = address

    async def connect(self):
        host, port = self.address.split(":")
        self.client = redis.asyncio.Redis(host=host, port=int(port), max_connections=CONNECTIONS)

    async def acquire(self, name, ttl, timeout):
        lock = self.client.lock(name, timeout=ttl, blocking_timeout=timeout)
        return lock if await lock.acquire() else None

    async def attempt(self, name, ttl):
        lock = self.client.lock(name, timeout=ttl)
        return lock if await lock.acquire(blocking=False) else None

    async def release(self, lock):
        await lock.release()

    async def held(self, lock):
        return await lock.owned()

    async def renew(self, lock):
        await lock.reacquire()

    async def block(self, name, ttl, timeout, body):
        async with self.client.lock(name, timeout=ttl, blocking_timeout=timeout):
            body()


serve(RedisPyAsyncio)
