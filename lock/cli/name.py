"""The name of a lock or an election, as a command line argument."""

from __future__ import annotations

import click

from lock.errors import InvalidName
from lock.queue.names import queue_prefix


def _valid(ctx: click.Context, argument: click.Parameter, name: str) -> str:
    try:
        queue_prefix(name)
    except InvalidName as error:
        raise click.BadParameter(str(error)) from error
    return name


name_argument = click.argument("name", callback=_valid)
