"""A shop whose steps are taken one by one, and a browser for its page."""

from __future__ import annotations

from tests.support.browser_fixtures import chromium, chromium_path
from tests.support.shop_fixtures import app, make, other, sale, settings
