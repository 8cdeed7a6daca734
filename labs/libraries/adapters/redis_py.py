"""redis-py's Lock with threads, as the docstring of `redis.Redis.lock` says."""

# mypy: ignore-errors
# ruff: noqa: D101

import redis
from harness import LockAdapter, serve


class RedisPy(LockAdapter):
    distribution = "redis"

    def __init__(self, address):
        self.client = redis.Redis.from_url(f"redis://{address}")

    def acquire(self, name, ttl, timeout):
        lock = self.client.lock(name, timeout=ttl, blocking_timeout=timeout)
        return lock if lock.acquire() else None

    def release(self, lock):
        lock.release()

    def held(self, lock):
        return lock.owned()

    def block(self, name, ttl, timeout, body):
        with self.client.lock(name, timeout=ttl, blocking_timeout=timeout):
            body()


serve(RedisPy)
