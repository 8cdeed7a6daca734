"""sherlock over Redis, as the docstring of `sherlock.RedisLock` says.

`locked()` answers for all holders, so the answer of `renew()` tells whether this one still holds.
"""

# mypy: ignore-errors
# ruff: noqa: D101

import redis
import sherlock
from harness import LockAdapter, serve

FOR_EVER_S = 86400


class Sherlock(LockAdapter):
    distribution = "sherlock"

    def __init__(self, address):
        self.client = redis.Redis.from_url(f"redis://{address}")

    def lock(self, name, ttl, timeout):
        timeout = FOR_EVER_S if timeout is None else timeout
        return sherlock.RedisLock(name, client=self.client, expire=ttl, timeout=timeout)

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl, timeout)
        return lock if lock.acquire() else None

    def release(self, lock):
        lock.release()

    def held(self, lock):
        return lock.renew()

    def block(self, name, ttl, timeout, body):
        with self.lock(name, ttl, timeout):
            body()


serve(Sherlock)
