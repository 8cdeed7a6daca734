"""Options that commands share."""

from __future__ import annotations

import math
from typing import Any

import click

from loadtest.language import ENGLISH, LANGUAGES


class NumberRange(click.FloatRange):
    """A number in a range; without this, click would take `nan` for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is not a number.", param, ctx) if math.isnan(number) else number


SECONDS = NumberRange(min=0, max=86_400, min_open=True)

language = click.option(
    "--language", type=click.Choice(LANGUAGES), default=ENGLISH, show_default=True, help="Of the texts."
)
