"""redis-py's Lock with threads, as the docstrings of `Redis.lock` and `Lock` say; a connection for each waiter.

https://redis.readthedocs.io/en/stable/lock.html, https://redis.readthedocs.io/en/stable/connections.html
"""

from harness import CONNECTIONS, LockAdapter
from redis import Redis


class Adapter(LockAdapter):
    packages = ("redis",)

    def __init__(self, address, client=Redis):
        host, port = address.split(":")
        self.client = client(host=host, port=int(port), max_connections=CONNECTIONS)

    def lock(self, name, ttl, timeout=None):
        return self.client.lock(name, timeout=ttl, blocking_timeout=timeout)

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, ttl, timeout)
        return lock if lock.acquire() else None

    def held(self, lock):
        return lock.owned()

    def renew(self, lock):
        return lock.reacquire()

    def section(self, name, ttl, timeout):
        return self.lock(name, ttl, timeout)
