"""etcd3aio's Lock, as its README and docstrings say. It has no timeout, and nothing to ask whether it is held."""

# mypy: ignore-errors
# ruff: noqa: D101

from etcd3aio import Etcd3Client
from harness import AsyncLockAdapter, NotOffered, serve


class Etcd3aio(AsyncLockAdapter):
    distribution = "etcd3aio"

    def __init__(self, address):
        self.address = address

    async def connect(self):
        self.client = Etcd3Client([self.address])
        await self.client.connect()

    async def acquire(self, name, ttl, timeout):
        if timeout is not None:
            raise NotOffered
        lock = self.client.lock(name, ttl=ttl)
        await lock.acquire()
        return lock

    async def release(self, lock):
        await lock.release()

    async def block(self, name, ttl, timeout, body):
        async with self.client.lock(name, ttl=ttl):
            body()


serve(Etcd3aio)
