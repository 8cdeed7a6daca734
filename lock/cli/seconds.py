"""The type of options that are times."""

from __future__ import annotations

import math
from typing import Any

import click


class Seconds(click.FloatRange):
    """Seconds, 0 or more, and never `nan`."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return seconds
