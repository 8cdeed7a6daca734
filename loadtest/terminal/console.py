"""The console of the commands."""

from __future__ import annotations

import os

from rich.console import Console

_PLAIN_WIDTH, _USUAL_WIDTH = 120, 80  # without a terminal; where COLUMNS is not a width


def console() -> Console:
    """Standard output: plain text if it is not a terminal, without colour if NO_COLOR is set."""
    found = Console(highlight=False)
    columns = os.environ.get("COLUMNS")
    if columns:
        found.width = int(columns) if columns.isdecimal() and int(columns) else _USUAL_WIDTH
    elif not found.is_terminal:
        found.width = _PLAIN_WIDTH
    return found
