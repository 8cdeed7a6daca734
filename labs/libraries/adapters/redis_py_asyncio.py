"""redis-py's Lock with asyncio, as the docstrings of `redis.asyncio.Redis.lock` and `Lock` say.

https://redis.readthedocs.io/en/stable/lock.html, https://redis.readthedocs.io/en/stable/examples/asyncio_examples.html
"""

import redis.asyncio
from harness import CONNECTIONS, LockAdapter, serve


class RedisPyAsyncio(LockAdapter):
    packages = ("redis",)
    tasks = True

    def __init__(self, address):
        self.address = address

    async def connect(self):
        host, port = self.address.split(":")
        self.client = redis.asyncio.Redis(host=host, port=int(port), max_connections=CONNECTIONS)

    def lock(self, name, ttl, timeout=None):
        return self.client.lock(name, timeout=ttl, blocking_timeout=timeout)

    async def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl, timeout)
        return lock if await lock.acquire() else None

    async def attempt(self, name, ttl):
        lock = self.lock(name, ttl)
        return lock if await lock.acquire(blocking=False) else None

    def held(self, lock):
        return lock.owned()

    def renew(self, lock):
        return lock.reacquire()

    async def block(self, name, ttl, timeout, body):
        async with self.lock(name, ttl, timeout):
            body()


serve(RedisPyAsyncio)
