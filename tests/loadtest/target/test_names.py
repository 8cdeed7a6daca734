"""Names that app and loadtest each have in one place agree, though neither imports the other."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import loadtest
from app.sales.sale import Keys
from loadtest.stack.stack import Stack
from loadtest.target.names import key_prefix, queue_name


def test_the_rush_reads_the_keys_that_the_shop_writes() -> None:
    """The prefix is that of the shop's keys."""
    assert key_prefix("a") + "stock" == Keys("a").stock


def test_the_rush_counts_the_queue_that_the_shop_uses(stack: Stack) -> None:
    """The shop tells the name of its lock."""
    with urllib.request.urlopen(f"{stack.urls[0]}/lock", timeout=5) as response:
        assert json.load(response)["name"] == queue_name("demo")


def test_the_repository_is_where_its_files_are() -> None:
    """Programs are started, and files read, from the checkout that this code is in."""
    assert (loadtest.REPOSITORY / "pyproject.toml").is_file()
    assert Path(loadtest.__file__).parent == loadtest.REPOSITORY / "loadtest"
