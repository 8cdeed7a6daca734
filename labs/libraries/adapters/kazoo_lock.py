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
        self.lost = False
        return self.client.Lock(f"/{name}")

    def listen(self, state):
        self.connected = state == kazoo.client.KazooState.CONNECTED
        if state == kazoo.client.KazooState.LOST:
            self.lost = True

    def acquire(self, name, ttl, timeout):
        try:
            return super().acquire(name, ttl, timeout)
        except LockTimeout:
            return None

    def held(self, lock):
        return self.connected and not self.lost


serve(Kazoo)
