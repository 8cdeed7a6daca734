"""The stack that the tests of the rush share, and a shop without it."""

from __future__ import annotations

from tests.support.shop_fixtures import make, running_stack, sale, settings, stack
