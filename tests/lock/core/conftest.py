"""The core by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The core's log lines of ten thousand histories are of no use."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
