"""etcd3gw's Lock, as its docstrings say. `acquire` only tries, so a wait is a loop of its caller."""

# mypy: ignore-errors
# ruff: noqa: D101

import time

import etcd3gw
from harness import LockAdapter, NotOffered, serve

AGAIN_S = 0.05


class Etcd3Gw(LockAdapter):
    distribution = "etcd3gw"

    def __init__(self, address):
        host, port = address.split(":")
        self.client = etcd3gw.client(host=host, port=int(port))

    def acquire(self, name, ttl, timeout):
        if timeout:
            raise NotOffered
        lock = self.client.lock(name, ttl=ttl)
        while not lock.acquire():
            if timeout == 0:
                return None
            time.sleep(AGAIN_S)
        return lock

    def release(self, lock):
        return lock.release()

    def held(self, lock):
        return lock.is_acquired()

    def block(self, name, ttl, timeout, body):
        with self.client.lock(name, ttl=ttl):
            body()


serve(Etcd3Gw)
