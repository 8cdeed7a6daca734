"""A browser for the site of the documents."""

from __future__ import annotations

from tests.support.browser_fixtures import chromium, chromium_path
