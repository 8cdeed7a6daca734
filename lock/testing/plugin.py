"""The fixture for pytest, which finds it where the library is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lock.testing.etcd import MemoryEtcd


@pytest.fixture
def etcd_lock() -> Iterator[MemoryEtcd]:
    """An etcd in memory for this test."""
    with MemoryEtcd() as etcd:
        yield etcd
