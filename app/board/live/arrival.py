"""The buyers of a rush that the board has asked for, on their way to the barrier."""

from __future__ import annotations

import time
from typing import Any

from app.board.sources.locust import LocustStatus

PATIENCE_S = 10.0  # for Locust to begin: its page may tell a state that is seconds old


class Arrival:
    """Lasts from the click until the sale begins, or until Locust has given up.

    Args:
        guard, buyers, stock: the rush that was asked for.
        generation: that of the sale before; None if there was none.
    """

    def __init__(self, *, guard: str, buyers: int, stock: int, generation: str | None) -> None:
        self._asked = {"guard": guard, "buyers": buyers, "stock": stock}
        self._buyers = buyers
        self._generation = generation
        self._began = time.monotonic()
        self._was_busy = False

    def look(self, locust: LocustStatus | None, generation: str | None) -> dict[str, Any] | None:
        """The rush that was asked for, with the number of buyers that are `here`; None if it lasts no longer."""
        is_busy = locust is not None and locust.is_busy
        self._was_busy |= is_busy
        waits = is_busy or (not self._was_busy and time.monotonic() - self._began < PATIENCE_S)
        if generation != self._generation or not waits:
            return None
        here = locust.here if locust and is_busy else 0
        return {**self._asked, "here": min(here, self._buyers)}
