"""The fixtures of the lock's tests, on an etcd in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lock import Client, Session
from lock.testing import MemoryEtcd
from lock.testing.plugin import etcd_lock
from tests.lock.conformance.conftest import face, loop, make, theirs


@pytest.fixture
def client(etcd_lock: MemoryEtcd) -> Client:
    return etcd_lock.connect()


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    """This process's session."""
    with Session(client, ttl=10, name="ours") as session:
        yield session


@pytest.fixture
def stranger(etcd_lock: MemoryEtcd) -> Iterator[Session]:
    """A session that stands for another process."""
    with etcd_lock.session(name="stranger") as session:
        yield session
