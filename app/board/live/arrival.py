"""A rush that the board has asked for: its buyers on their way to the barrier, and whether it lasts."""

from __future__ import annotations

import time
from typing import Any

from app.board.sources.locust import LocustStatus

PATIENCE_S = 5.0  # for Locust to be seen at work: its page tells a state that is up to two seconds old


class Arrival:
    """Lasts from the click until Locust has worked and is idle again.

    Args:
        guard, buyers, stock: the rush that was asked for.
        generation: that of the sale before; `None` if there was none.

    Attributes:
        lasts: whether the rush may go on, as last looked at; until Locust tells so, its page may still say "stopped".
    """

    def __init__(self, *, guard: str, buyers: int, stock: int, generation: str | None) -> None:
        self.lasts = True
        self._asked = {"guard": guard, "buyers": buyers, "stock": stock}
        self._buyers = buyers
        self._generation = generation
        self._began = time.monotonic()
        self._was_running = False

    def look(self, locust: LocustStatus | None, generation: str | None) -> dict[str, Any] | None:
        """The rush that was asked for, with the number of buyers that are `here`; `None` as soon as its sale begins."""
        is_running = locust is not None and locust.is_running
        self._was_running |= is_running
        self.lasts = is_running or (not self._was_running and time.monotonic() - self._began < PATIENCE_S)
        if generation != self._generation or not self.lasts:
            return None
        here = locust.here if locust and is_running else 0
        return {**self._asked, "here": min(here, self._buyers)}
