"""redis-py's Lock with asyncio, as the docstrings of `redis.asyncio.Redis.lock` and `Lock` say.

https://redis.readthedocs.io/en/stable/lock.html, https://redis.readthedocs.io/en/stable/examples/asyncio_examples.html
"""

import redis_py
from redis.asyncio import Redis


class Adapter(redis_py.Adapter):
    tasks = True

    def __init__(self, address):
        super().__init__(address, Redis)

    async def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl, timeout)
        return lock if await lock.acquire() else None

    async def attempt(self, name, ttl):
        lock = self.lock(name, ttl)
        return lock if await lock.acquire(blocking=False) else None
