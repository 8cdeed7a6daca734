"""python-etcd3's Lock, as the docstrings of `etcd3.locks` say. Its ``with`` waits ten seconds, whatever is asked."""

# mypy: ignore-errors
# ruff: noqa: D101

import etcd3
from harness import LockAdapter, serve


class Etcd3(LockAdapter):
    distribution = "etcd3"

    def __init__(self, address):
        host, port = address.split(":")
        self.client = etcd3.client(host=host, port=int(port))

    def acquire(self, name, ttl, timeout):
        lock = self.client.lock(name, ttl=ttl)
        return lock if lock.acquire(timeout=timeout) else None

    def release(self, lock):
        return lock.release()

    def held(self, lock):
        return lock.is_acquired()

    def block(self, name, ttl, timeout, body):
        with self.client.lock(name, ttl=ttl):
            body()


serve(Etcd3)
