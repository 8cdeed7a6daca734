"""A part of `bench`: the guard with shards on one to three masters of Redis, and sales of several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from labs.bench.part import Part
from labs.bench.result import Case
from labs.shards.commands import GUARDS
from labs.shards.local_cluster import use_cluster
from loadtest.results.text import pluralize


def _shards(guards: Sequence[str]) -> Iterator[Part]:
    """3,000 buyers and stock for all on 64 shards, of one Redis and of clusters; then sales of several sizes."""
    wanted = [guard for guard in guards if guard in GUARDS]
    for nodes in (1, 2, 3):
        setting = f"{pluralize(nodes, 'node')}, 30000 items"
        cases = [Case("shards", guard, 3000, 30_000, setting=setting) for guard in wanted]
        yield Part(cases, rounds=2, env={"FLASHSALE_SHARDS": "64"}, prepare=partial(use_cluster, masters=nodes))
    sizes = [
        Case("shards", guard, size, size, rate=600.0, setting=f"1 node, {size} items")
        for size in (300, 3000, 30_000)
        for guard in wanted
        if guard != "redis-lua"
    ]
    yield Part(sizes, rounds=1, warm_up=False)


PARTS = {"shards": _shards}
_CPU = ("CPU ms instances", "CPU ms etcd", "CPU ms redis")
COLUMNS = {"shards": ("guard", "setting", "clicks/s", "locks", "Redis trips", "busiest node", *_CPU, "verdict")}
