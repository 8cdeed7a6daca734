"""`up --redis-shards`: several masters of a Redis Cluster instead of the single Redis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from labs.shards.local_cluster import use_cluster
from loadtest.stack.stack import Stack

MASTERS = click.Option(
    ["--redis-shards"], default=1, type=click.IntRange(1, 9), show_default=True, help="Redis masters; 1: no cluster."
)
OPTIONS = [MASTERS]


def init_stack(stack: Stack, options: Mapping[str, Any]) -> None:
    """Start the masters that are asked for."""
    use_cluster(stack, options["redis_shards"])
