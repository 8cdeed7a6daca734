"""pottery's Redlock over five nodes, as its README and docstrings say.

https://github.com/brainix/pottery/blob/v3.0.1/README.md#redlock, .../pottery/redlock.py (`Redlock`)
"""

from harness import CONNECTIONS, LockAdapter
from pottery import Redlock
from redis import Redis


class Adapter(LockAdapter):
    packages = ("pottery", "redis")

    def __init__(self, address):
        nodes = [node.split(":") for node in address.split(",")]
        self.masters = {Redis(host=host, port=int(port), max_connections=CONNECTIONS) for host, port in nodes}

    def lock(self, name, ttl, **options):
        return Redlock(key=name, masters=self.masters, auto_release_time=ttl, **options)

    def acquire(self, name, ttl, timeout):
        return super().acquire(name, ttl, -1 if timeout is None else timeout)

    def held(self, lock):
        return lock.locked()

    def renew(self, lock):
        lock.extend()

    def section(self, name, ttl, timeout):
        return self.lock(name, ttl, context_manager_timeout=timeout)
