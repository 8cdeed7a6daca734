"""The fixtures of the lock's tests, on an etcd in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lock import Client, Session
from lock.testing import MemoryEtcd
from lock.testing.plugin import etcd_lock
from tests.lock.conformance.conftest import face, is_a_recipe_too_many, loop, make, quick_looks, theirs


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the recipes, all of which run on a real etcd, five run here as well; the others are slow."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here) and is_a_recipe_too_many(item):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def opens(etcd_lock: MemoryEtcd) -> Callable[[], Client]:
    return etcd_lock.connect


@pytest.fixture
def client(etcd_lock: MemoryEtcd) -> Client:
    return etcd_lock.connect()


@pytest.fixture
def stranger(etcd_lock: MemoryEtcd) -> Iterator[Session]:
    """A session that stands for another process."""
    with etcd_lock.session(name="stranger") as session:
        yield session
