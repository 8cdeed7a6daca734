"""A network of a module's own, and the address of the room in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.room.tests.network import Network, own_network
from labs.room.up import RoomServer
from loadtest.stack.stack import Stack
from tests.support.browser_fixtures import chromium_path
from tests.support.shop_fixtures import app, browser, crowd, make, settings
from tests.support.stack_fixtures import running_stack, stack


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """A network of these tests' own."""
    with own_network() as network:
        yield network


@pytest.fixture(scope="module")
def room(stack: Stack) -> RoomServer:
    """The room's server of the module's stack."""
    (room,) = (each for each in stack.pages if isinstance(each, RoomServer))
    return room
