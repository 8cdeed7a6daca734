"""Servers that tests share: real ones, on free ports, gone at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.stack.servers import Etcd, Redis


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One etcd for the whole run: use your own names, and leave it running."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def fresh_etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Etcd]:
    """This test's own etcd, to be stopped, paused or killed; what is set for another one does not concern it."""
    monkeypatch.setenv("ETCD_CERT_FILE", "/nowhere/cert.pem")
    with Etcd(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """One Redis for the whole run: flush it before use, and leave it running."""
    with Redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def fresh_redis(tmp_path: Path) -> Iterator[Redis]:
    """A Redis of this test's own, to be stopped, paused or changed."""
    with Redis(tmp_path) as server:
        yield server
