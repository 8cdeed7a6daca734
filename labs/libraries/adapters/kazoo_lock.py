"""kazoo's Lock, with the listener that the docstring of `kazoo.recipe.lock` recommends.

https://kazoo.readthedocs.io/en/latest/api/recipe/lock.html, .../basic_usage.html#listening-for-connection-events
"""

import threading

import kazoo.client
from harness import LockAdapter, serve
from kazoo.exceptions import LockTimeout


class Kazoo(LockAdapter):
    packages = ("kazoo",)

    def __init__(self, address):
        self.address, self.client, self.connected = address, None, True
        self.starting = threading.Lock()

    def lock(self, name, ttl):
        with self.starting:
            if self.client is None:
                self.client = kazoo.client.KazooClient(hosts=self.address, timeout=ttl)
                self.client.add_listener(self.listen)
                self.client.start(timeout=60)
        return self.client.Lock(f"/{name}")

    def listen(self, state):
        self.connected = state == kazoo.client.KazooState.CONNECTED
        if state == kazoo.client.KazooState.LOST:
            self.lost = True

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl)
        self.lost = False
        try:
            return lock if lock.acquire(timeout=timeout) else None
        except LockTimeout:
            return None

    def attempt(self, name, ttl):
        lock = self.lock(name, ttl)
        self.lost = False
        return lock if lock.acquire(blocking=False) else None

    def release(self, lock):
        return lock.release()

    def held(self, lock):
        return self.connected and not self.lost

    def block(self, name, ttl, timeout, body):
        with self.lock(name, ttl):
            body()


serve(Kazoo)
