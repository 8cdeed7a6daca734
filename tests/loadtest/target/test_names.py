"""Names that app and loadtest each have in one place agree, though neither imports the other."""

from __future__ import annotations

import json
import urllib.request

from app.config.settings import Settings
from app.sales.slots import Keys, shard_name
from loadtest.stack.stack import Stack
from loadtest.target.names import key_prefix, queue_name, slot_names


def test_the_rush_reads_the_keys_that_the_shop_writes() -> None:
    """The prefix is that of the shop's keys, in the treasury and in as many shards as the shop has."""
    names = ["a", *(shard_name("a", number) for number in range(Settings().shards))]
    assert slot_names("a") == names
    assert [key_prefix(name) + "stock" for name in names] == [Keys(name).stock for name in names]


def test_the_rush_counts_the_queue_that_the_shop_uses(stack: Stack) -> None:
    """The shop tells the name of its lock."""
    with urllib.request.urlopen(f"{stack.urls[0]}/lock", timeout=30) as response:
        assert json.load(response)["name"] == queue_name("demo")
