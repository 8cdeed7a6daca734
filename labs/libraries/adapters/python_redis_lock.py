"""python-redis-lock, renewed as its README recommends under «Troubleshooting»."""

# mypy: ignore-errors
# ruff: noqa: D101

import redis_lock
from harness import LockAdapter, serve
from redis import Redis


class PythonRedisLock(LockAdapter):
    distribution = "python-redis-lock"

    def __init__(self, address):
        # redis-py 8 ends a read after five seconds, and with it a longer wait (BLPOP).
        self.client = Redis.from_url(f"redis://{address}", socket_timeout=None)

    def lock(self, name, ttl):
        return redis_lock.Lock(self.client, name, expire=ttl, auto_renewal=True)

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl)
        return lock if lock.acquire(timeout=timeout) else None

    def release(self, lock):
        lock.release()

    def held(self, lock):
        return lock.get_owner_id() == lock.id

    def block(self, name, ttl, timeout, body):
        with self.lock(name, ttl):
            body()


serve(PythonRedisLock)
