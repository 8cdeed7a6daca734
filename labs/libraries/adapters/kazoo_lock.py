"""kazoo's Lock, with the listener that the docstring of `kazoo.recipe.lock` recommends.

https://kazoo.readthedocs.io/en/latest/api/recipe/lock.html, .../basic_usage.html#listening-for-connection-events
"""

import threading

from harness import LockAdapter
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout


class Adapter(LockAdapter):
    packages = ("kazoo",)
    gives_up = LockTimeout

    def __init__(self, address):
        self.address, self.client, self.connected = address, None, True
        self.starting = threading.Lock()

    def lock(self, name, ttl):
        with self.starting:
            if self.client is None:
                self.client = KazooClient(hosts=self.address, timeout=ttl)
                self.client.add_listener(self.listen)
                self.client.start(timeout=60)
        self.lost = False
        return self.client.Lock(f"/{name}")

    def listen(self, state):
        self.connected = state == KazooState.CONNECTED
        if state == KazooState.LOST:
            self.lost = True

    def held(self, lock):
        return self.connected and not self.lost
