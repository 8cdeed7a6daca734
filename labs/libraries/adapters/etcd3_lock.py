"""python-etcd3's Lock, as its README and docstrings show it. Its ``with`` waits ten seconds, whatever is asked.

https://python-etcd3.readthedocs.io/en/latest/usage.html#etcd3.Lock, https://github.com/kragniz/python-etcd3#readme
"""

import etcd3
from harness import LockAdapter


class Adapter(LockAdapter):
    packages = ("etcd3", "grpcio", "protobuf")

    def __init__(self, address):
        host, port = address.split(":")
        self.client = etcd3.client(host=host, port=int(port))

    def lock(self, name, ttl):
        return self.client.lock(name, ttl=ttl)

    def attempt(self, name, ttl):
        return self.acquire(name, ttl, 0)  # "equal or greater than 0 is the number of seconds"

    def held(self, lock):
        return lock.is_acquired()

    def renew(self, lock):
        lock.refresh()
