"""One stack for all tests of this folder: each sale has its own keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.payment.stage import PaymentStack, Stage


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaymentStack]:
    """Two shops, etcd, Redis and the provider."""
    with PaymentStack(tmp_path_factory.mktemp("payment")) as stack:
        yield stack


@pytest.fixture
def stage(running: PaymentStack) -> Stage:
    """A stage on which everything runs, whatever the test before has left."""
    running.heal()
    return Stage(running)
