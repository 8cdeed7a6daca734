"""Options that commands share."""

from __future__ import annotations

import math
import os
from typing import Any

import click

from loadtest.language import ENGLISH, LANGUAGES


class NumberRange(click.FloatRange):
    """A number in a range; without this, click would take `nan` for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is not a number.", param, ctx) if math.isnan(number) else number


SECONDS = NumberRange(min=0, max=86_400, min_open=True)


def _unpin(_ctx: click.Context, _param: click.Parameter, is_given: bool) -> None:
    if is_given:
        os.environ["FLASHSALE_CPU"] = ""


no_pin = click.option(
    "--no-pin",
    is_flag=True,
    expose_value=False,
    callback=_unpin,
    help="Run each instance on all CPUs. By default each has one, if FLASHSALE_CPU is not set.",
)

language = click.option(
    "--language", type=click.Choice(LANGUAGES), default=ENGLISH, show_default=True, help="Of the texts."
)
