"""A browser for the page of a benchmark."""

from __future__ import annotations

from tests.support.browser_fixtures import chromium, chromium_path
