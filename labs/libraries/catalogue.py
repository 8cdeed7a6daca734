"""The libraries, in the order of the table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labs.libraries.environments import compiled_go, python_of
from labs.libraries.program import Program
from labs.libraries.stores.etcd import EtcdStore
from labs.libraries.stores.postgresql import PostgreSQLStore
from labs.libraries.stores.redis import RedisStore
from labs.libraries.stores.store import FileStore, Store
from labs.libraries.stores.zookeeper import ZooKeeperStore
from loadtest import REPOSITORY

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass(frozen=True)
class Library:
    """A library and how it is tried."""

    name: str  # of one that is used in two ways, with the way in brackets
    adapter: str  # a file in adapters/
    store: Callable[[Path], Store]
    requirements: str = ""  # a file in requirements/; "": it runs in this environment
    waiters: int = 200  # at once, in the case that counts what they cost
    version: str = ""  # where it is none of an installed package

    def program(self) -> list[str]:
        """The command that runs the adapter, without the address; raises NotTried."""
        if self.adapter.endswith(".go"):
            return [compiled_go(ADAPTERS)]
        python = python_of(self.requirements) if self.requirements else sys.executable
        return [python, str(ADAPTERS / "harness.py"), Path(self.adapter).stem]

    def launch(self, address: str, directory: Path) -> Program:
        """Start a process of the adapter, whose errors go into `directory`; raises NotTried."""
        path = ADAPTERS / self.adapter
        env = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(path.parent)])}
        return Program([*self.program(), address], env=env, directory=ADAPTERS, log=directory / f"{path.name}.log")


LIBRARIES = (
    Library("ours", "ours.py", EtcdStore, version="this repository"),
    Library("Go concurrency", "go_concurrency.go", EtcdStore),
    Library("etcd lock (etcdctl)", "etcdctl.py", EtcdStore, waiters=20, version="the server's"),
    Library("etcd lock (RPC)", "etcd_rpc.py", EtcdStore, version="the server's"),
    Library("etcd3", "etcd3_lock.py", EtcdStore, "etcd3"),
    Library("redis-py (threads)", "redis_py.py", RedisStore, "redis-py"),
    Library("redis-py (asyncio)", "redis_py_asyncio.py", RedisStore, "redis-py"),
    Library("python-redis-lock", "python_redis_lock.py", RedisStore, "python-redis-lock"),
    Library("pottery", "pottery_redlock.py", partial(RedisStore, nodes=5), "pottery"),
    Library("tooz", "tooz_lock.py", RedisStore, "tooz"),
    Library("PostgreSQL advisory", "postgresql_advisory.py", PostgreSQLStore, "psycopg"),
    Library("PostgreSQL row", "postgresql_row.py", PostgreSQLStore, "psycopg"),
    Library("kazoo", "kazoo_lock.py", ZooKeeperStore, "kazoo"),
    Library("filelock", "filelock_lock.py", FileStore, "filelock"),
)
ORDER = tuple(library.name for library in LIBRARIES)
