"""The libraries, in the order of the table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labs.libraries.environments import compiled_go, python_of
from labs.libraries.program import Program
from labs.libraries.stores.etcd import EtcdStore
from labs.libraries.stores.postgresql import PostgreSQLStore
from labs.libraries.stores.redis import RedisNodes, RedisStore
from labs.libraries.stores.store import FileStore, Store
from labs.libraries.stores.zookeeper import ZooKeeperStore
from loadtest import REPOSITORY
from loadtest.stack import binaries

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass(frozen=True)
class Library:
    """A library and how it is tried.

    Attributes:
        name: in the table; of a library that is used in two ways, with the way in brackets.
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
        if self.adapter.endswith(".go"):
            return [compiled_go(ADAPTERS)]
        python = python_of(self.requirements) if self.requirements else sys.executable
        return [python, str(ADAPTERS / self.adapter)]

    def launch(self, address: str, directory: Path) -> Program:
        """Start a process of the adapter, whose errors go into `directory`; raises ProgramError."""
        env = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(ADAPTERS)]), **self.env()}
        log = directory / f"{Path(self.adapter).name}.log"
        return Program([*self.program(), address], env=env, directory=ADAPTERS, log=log)


def etcdctl() -> dict[str, str]:
    """Where `etcdctl` is."""
    return {"ETCDCTL": str(binaries.etcdctl())}


def postgresql(lock: str) -> Callable[[], Mapping[str, str]]:
    """Which of PostgreSQL's locks is tried."""
    return lambda: {"POSTGRESQL": lock}


LIBRARIES = (
    Library("ours", "ours.py", EtcdStore, version="this repository"),
    Library("Go concurrency", "go_concurrency.go", EtcdStore),
    Library("etcd lock (etcdctl)", "etcdctl.py", EtcdStore, waiters=20, version="the server's", env=etcdctl),
    Library("etcd lock (RPC)", "etcd_rpc.py", EtcdStore, version="the server's"),
    Library("etcd3", "etcd3_lock.py", EtcdStore, "etcd3"),
    Library("redis-py (threads)", "redis_py.py", RedisStore, "redis-py"),
    Library("redis-py (asyncio)", "redis_py_asyncio.py", RedisStore, "redis-py"),
    Library("python-redis-lock", "python_redis_lock.py", RedisStore, "python-redis-lock"),
    Library("pottery", "pottery_redlock.py", RedisNodes, "pottery"),
    Library("tooz", "tooz_lock.py", RedisStore, "tooz"),
    Library("PostgreSQL advisory", "postgresql_lock.py", PostgreSQLStore, "psycopg", env=postgresql("advisory")),
    Library("PostgreSQL row", "postgresql_lock.py", PostgreSQLStore, "psycopg", env=postgresql("row")),
    Library("kazoo", "kazoo_lock.py", ZooKeeperStore, "kazoo"),
    Library("filelock", "filelock_lock.py", FileStore, "filelock"),
)
ORDER = tuple(library.name for library in LIBRARIES)
