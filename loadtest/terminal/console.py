"""The console of the commands."""

from __future__ import annotations

import os

from rich.console import Console

_LOG_WIDTH = 120


def console() -> Console:
    """Standard output: plain text if it is not a terminal, without colour if NO_COLOR is set."""
    found = Console(highlight=False)
    if not (found.is_terminal or os.environ.get("COLUMNS")):
        found.width = _LOG_WIDTH
    return found
