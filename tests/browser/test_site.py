"""The site of the documents, opened from disk, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.lock import ROOT

WAIT_MS = 30_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=120)
    return folder


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("fencing", "lock.html"),
        ("non-blocking", "lock.html"),
        ("kazoo", "lock-recipes.html"),
        ("租约", "workshop.zh-CN.html"),
        ("超卖", "readme.zh-CN.html"),
        ("令牌", "workshop.zh-CN.html"),
    ],
)
def test_words_are_found_without_a_network(chromium: Browser, site: Path, word: str, page: str) -> None:
    """In English and in Chinese, where words have no spaces between them; nothing is asked of a server."""
    with chromium.new_context(offline=True) as context:
        tab = context.new_page()
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto((site / "index.html").as_uri())
        search = tab.locator(".md-search__input").first
        search.click()
        expect(tab.locator(".md-search-result__meta").first).to_have_text("Type to start searching", timeout=WAIT_MS)
        search.fill(word)
        search.press("End")  # the page reads the words when a key is released
        expect(tab.locator(f".md-search-result__link[href*='{page}']").first).to_be_attached(timeout=WAIT_MS)
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
