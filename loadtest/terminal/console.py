"""The terminal that commands write to."""

from __future__ import annotations

import os

from rich.console import Console

# Where there is no terminal that has a width, and where COLUMNS is not one.
_PLAIN_WIDTH, _USUAL_WIDTH = 120, 80


def console() -> Console:
    """Standard output; plain text where that is not a terminal, without colour where NO_COLOR is set."""
    found = Console(highlight=False)
    columns = os.environ.get("COLUMNS")
    if columns:
        found.width = int(columns) if columns.isdecimal() and int(columns) else _USUAL_WIDTH
    elif not found.is_terminal:
        found.width = _PLAIN_WIDTH
    return found
