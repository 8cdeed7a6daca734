"""pottery's Redlock over three nodes, as its docstring says."""

# mypy: ignore-errors
# ruff: noqa: D101

from harness import LockAdapter, serve
from pottery import Redlock
from redis import Redis


class Pottery(LockAdapter):
    distribution = "pottery"

    def __init__(self, address):
        self.masters = {Redis.from_url(f"redis://{node}") for node in address.split(",")}

    def acquire(self, name, ttl, timeout):
        lock = Redlock(key=name, masters=self.masters, auto_release_time=ttl)
        return lock if lock.acquire(timeout=-1 if timeout is None else timeout) else None

    def release(self, lock):
        lock.release()

    def held(self, lock):
        return lock.locked()

    def block(self, name, ttl, timeout, body):
        timeout = -1 if timeout is None else timeout
        lock = Redlock(key=name, masters=self.masters, auto_release_time=ttl, context_manager_timeout=timeout)
        with lock:
            body()


serve(Pottery)
