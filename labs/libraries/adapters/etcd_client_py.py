"""etcd-client-py's lock, as its README says: only an ``async with``, and nothing to ask whether it is held."""

# mypy: ignore-errors
# ruff: noqa: D101

from etcd_client import Client, EtcdLockOption
from harness import AsyncLockAdapter, serve


class EtcdClientPy(AsyncLockAdapter):
    distribution = "etcd-client-py"

    def __init__(self, address):
        self.client = Client([f"http://{address}"])

    def option(self, name, ttl, timeout):
        return EtcdLockOption(lock_name=name.encode(), ttl=ttl, timeout=timeout)

    async def acquire(self, name, ttl, timeout):
        context = self.client.with_lock(self.option(name, ttl, timeout))
        await context.__aenter__()
        return context

    async def release(self, context):
        await context.__aexit__(None, None, None)

    async def block(self, name, ttl, timeout, body):
        async with self.client.with_lock(self.option(name, ttl, timeout)):
            body()


serve(EtcdClientPy)
