"""python-redis-lock, renewed as its README recommends under «Troubleshooting».

https://python-redis-lock.readthedocs.io/en/latest/readme.html#usage, .../readme.html#troubleshooting
"""

import redis_lock
from harness import CONNECTIONS, LockAdapter
from redis import Redis


class Adapter(LockAdapter):
    packages = ("python-redis-lock", "redis")

    def __init__(self, address):
        host, port = address.split(":")
        self.client = Redis(host=host, port=int(port), max_connections=CONNECTIONS)

    def lock(self, name, ttl):
        return redis_lock.Lock(self.client, name, expire=ttl, auto_renewal=True)

    def held(self, lock):
        return lock.get_owner_id() == lock.id
