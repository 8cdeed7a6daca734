"""Options that commands share, and types that click lacks."""

from __future__ import annotations

import math
from typing import Any

import click

_DAY = 86_400.0


class Seconds(click.FloatRange):
    """A duration: more than 0, at most a day, never `nan`."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0, max=_DAY, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return seconds


redis_shards = click.option(
    "--redis-shards",
    default=1,
    type=click.IntRange(1, 9),
    show_default=True,
    help="Nodes of a Redis Cluster; 1: a single Redis.",
)
