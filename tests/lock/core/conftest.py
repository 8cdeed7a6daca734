"""The core by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.lock.core.sessions import Session
from tests.lock.core.small_world import Etcd


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The core's log lines of ten thousand histories are of no use."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def sessions() -> tuple[Session, Session]:
    etcd = Etcd()
    return Session(etcd, 1), Session(etcd, 2)
