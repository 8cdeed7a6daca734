"""Each test's own shop."""

from __future__ import annotations

from tests.support.shop_fixtures import (
    app,
    browser,
    crowd,
    make,
    other,
    process,
    running_stack,
    sale,
    settings,
    stack,
    stranger,
)
