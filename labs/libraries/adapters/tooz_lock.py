"""tooz's locks, as its tutorial says, with the built-in heartbeat; `TOOZ` is the driver of the coordinator's URL."""

# mypy: ignore-errors
# ruff: noqa: D101

import os
import threading
import uuid

import tooz
from harness import LockAdapter, NotOffered, serve
from tooz import coordination


class Tooz(LockAdapter):
    distribution = "tooz"

    def __init__(self, address):
        self.address, self.coordinator, self.starting = address, None, threading.Lock()

    def lock(self, name, ttl):
        with self.starting:
            if self.coordinator is None:
                url = f"{os.environ['TOOZ']}://{self.address}?lock_timeout={ttl}"
                self.coordinator = coordination.get_coordinator(url, uuid.uuid4().hex.encode())
                self.coordinator.start(start_heart=True)
        return self.coordinator.get_lock(name.encode())

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl)
        return lock if lock.acquire(blocking=blocking(timeout)) else None

    def release(self, lock):
        return lock.release()

    def held(self, lock):
        try:
            return lock.is_still_owner()
        except tooz.NotImplemented:
            raise NotOffered from None

    def block(self, name, ttl, timeout, body):
        with self.lock(name, ttl)(blocking=blocking(timeout)):
            body()


def blocking(timeout):
    """True waits for ever, False only tries, a number is a timeout."""
    return timeout is None or (timeout if timeout else False)


serve(Tooz)
