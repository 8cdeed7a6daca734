"""The stack of the tests, and a browser."""

from __future__ import annotations

from tests.support.browser_fixtures import chromium, chromium_path
from tests.support.shop_fixtures import running_stack, settings, stack
