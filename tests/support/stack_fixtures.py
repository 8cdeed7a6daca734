"""The stack that the tests of a module share: one that idled on beside others would cost them processor time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loadtest.stack.stack import Stack
from tests.support.selling import open_sale


@pytest.fixture(scope="module")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops with etcd and Redis: leave all of it running."""
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", env={"FLASHSALE_THREADS": "32"}) as running:
        yield running


@pytest.fixture
def stack(running_stack: Stack) -> Stack:
    """The shared stack, whatever the test before left: all of it runs, the sale is open and no purchase under way."""
    for process in running_stack.processes:
        if not process.running:
            process.start()
    open_sale(running_stack)
    return running_stack
