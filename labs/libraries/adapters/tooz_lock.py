"""tooz's lock over Redis, as its tutorial says, with the built-in heartbeat.

https://docs.openstack.org/tooz/latest/user/tutorial/lock.html, .../tutorial/coordinator.html (`start_heart`),
https://docs.openstack.org/tooz/latest/reference/index.html (`tooz.locking.Lock`, the Redis driver's `lock_timeout`)
"""

import threading
import uuid

from harness import LockAdapter
from tooz import coordination


class Adapter(LockAdapter):
    packages = ("tooz", "redis")

    def __init__(self, address):
        self.address, self.coordinator, self.starting = address, None, threading.Lock()

    def lock(self, name, ttl):
        with self.starting:
            if self.coordinator is None:
                url = f"redis://{self.address}?lock_timeout={ttl}"
                self.coordinator = coordination.get_coordinator(url, uuid.uuid4().hex.encode())
                self.coordinator.start(start_heart=True)
        return self.coordinator.get_lock(name.encode())

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl)
        return lock if lock.acquire(blocking=timeout is None or timeout) else None  # a number is a timeout

    def held(self, lock):
        return lock.is_still_owner()

    def section(self, name, ttl, timeout):
        return self.lock(name, ttl)(blocking=timeout)
