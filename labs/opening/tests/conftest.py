"""Each test's own shop."""

from __future__ import annotations

from tests.support.shop_fixtures import app, browser, crowd, make, other, process, sale, settings, stranger
from tests.support.stack_fixtures import running_stack, stack
