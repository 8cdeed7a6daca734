"""The stack that the tests of the rush share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loadtest.stack.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops with etcd and Redis for the whole run: reset the sale before use, and leave all of it running."""
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", env={"FLASHSALE_THREADS": "32"}) as running:
        yield running
