"""The fixture for pytest, which finds it where the library is installed.

It is installed as the package `pytest_etcd_lock`, beside `lock`: pytest imports its plug-ins in every run, and with
`lock` come gRPC and a third of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lock.testing.etcd import MemoryEtcd


@pytest.fixture
def etcd_lock() -> Iterator[MemoryEtcd]:
    """An etcd in memory for this test."""
    from lock.testing.etcd import MemoryEtcd

    with MemoryEtcd() as etcd:
        yield etcd
