"""Options that commands share."""

from __future__ import annotations

import click

SECONDS = click.FloatRange(min=0, max=86_400, min_open=True)

redis_shards = click.option(
    "--redis-shards",
    default=1,
    type=click.IntRange(1, 9),
    show_default=True,
    help="Nodes of a Redis Cluster; 1: a single Redis.",
)
