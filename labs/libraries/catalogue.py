"""The libraries, in the order of the table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labs.libraries.environments import python_of
from labs.libraries.go import compiled
from labs.libraries.program import Program
from labs.libraries.stores.etcd import EtcdStore
from labs.libraries.stores.files import FileStore
from labs.libraries.stores.postgresql import PostgreSQLStore
from labs.libraries.stores.redis import RedisNodes, RedisStore
from labs.libraries.stores.store import Store
from labs.libraries.stores.zookeeper import ZooKeeperStore
from loadtest import REPOSITORY
from loadtest.stack import binaries

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass(frozen=True)
class Library:
    """A library and how it is tried.

    Attributes:
        name: in the table, and for ``--only``.
        adapter: a file in ``adapters/``.
        requirements: a file in ``requirements/``; "": it runs in this environment.
        waiters: how many wait at once in the case that counts what they cost.
        version: where it is none of an installed package.
    """

    name: str
    adapter: str
    store: Callable[[Path], Store]
    requirements: str = ""
    waiters: int = 200
    version: str = ""
    env: Callable[[], Mapping[str, str]] = field(default=dict)

    def program(self) -> list[str]:
        """The command that runs the adapter, without the address; raises CannotInstall."""
        python = python_of(self.requirements) if self.requirements else sys.executable
        return [python, str(ADAPTERS / self.adapter)]

    def launch(self, address: str, directory: Path) -> Program:
        """Start a process of the adapter; raises ProgramError."""
        env = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(ADAPTERS)]), **self.env()}
        return Program([*self.program(), address], env=env, directory=ADAPTERS, log=directory / f"{self.adapter}.log")


class GoLibrary(Library):
    """One in Go, compiled."""

    def program(self) -> list[str]:
        return [compiled(ADAPTERS)]


def etcdctl_env() -> dict[str, str]:
    """Where `etcdctl` is."""
    return {"ETCDCTL": str(binaries.etcdctl())}


LIBRARIES = {
    library.name: library
    for library in (
        Library("ours", "ours.py", EtcdStore, version="this repository"),
        GoLibrary("Go concurrency", "go_concurrency.go", EtcdStore),
        Library("etcd lock RPC", "etcd_lock_rpc.py", EtcdStore, "lock-rpc"),
        Library("etcdctl lock", "etcdctl_lock.py", EtcdStore, waiters=20, version="the server's", env=etcdctl_env),
        Library("etcd3", "etcd3_lock.py", EtcdStore, "etcd3"),
        Library("etcd3 (newest)", "etcd3_lock.py", EtcdStore, "etcd3-newest"),
        Library("aetcd", "aetcd_lock.py", EtcdStore, "aetcd"),
        Library("etcd3aio", "etcd3aio_lock.py", EtcdStore, "etcd3aio"),
        Library("etcd-client-py", "etcd_client_py.py", EtcdStore, "etcd-client-py"),
        Library("etcd3gw", "etcd3gw_lock.py", EtcdStore, "tooz"),
        Library("tooz (etcd3gw)", "tooz_lock.py", EtcdStore, "tooz", env=lambda: {"TOOZ": "etcd3+http"}),
        Library("tooz (Redis)", "tooz_lock.py", RedisStore, "tooz", env=lambda: {"TOOZ": "redis"}),
        Library("redis-py", "redis_py.py", RedisStore, "redis-py"),
        Library("redis-py asyncio", "redis_py_asyncio.py", RedisStore, "redis-py"),
        Library("python-redis-lock", "python_redis_lock.py", RedisStore, "python-redis-lock"),
        Library("pottery", "pottery_redlock.py", RedisNodes, "pottery"),
        Library("sherlock", "sherlock_redis.py", RedisStore, "sherlock"),
        Library("PostgreSQL", "postgresql.py", PostgreSQLStore, "psycopg"),
        Library("kazoo", "kazoo_lock.py", ZooKeeperStore, "kazoo"),
        Library("filelock", "filelock_lock.py", FileStore, "filelock"),
    )
}
