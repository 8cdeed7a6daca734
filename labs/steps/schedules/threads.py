"""The threads of an instance that work for purchases: whether they do anything."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from labs.steps.frames import current_frames
from labs.steps.schedules.instances import IDLE_S
from labs.steps.schedules.still import real_monotonic
from labs.steps.shop import is_own

_PATH = Path("/proc/self/task")  # where there is none, what a thread executes says alone whether it sleeps


class Threads:
    """Those that are not the shop's own. Sleeps and waits of the shop's own are none of a purchase's."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0
        self._places: dict[int, object] = {}  # of a thread, by the one that asks
        self.pausing: set[int] = set()  # those that help purchases, as long as no time passes for them

    def of_guards(self) -> list[threading.Thread]:
        """Those that guards have started, and that go on."""
        return [each for each in threading.enumerate() if not is_own(each) and not each.name.startswith("steps-")]

    def are_busy(self) -> bool:
        """Whether guards have started some, and one of them has just gone on."""
        return any(each.ident not in self.pausing for each in self.of_guards()) and self.idle_s() < IDLE_S

    def waits(self, thread: threading.Thread) -> bool:
        """Whether it sleeps where it did when the thread that asks has asked last."""
        frame, asks = current_frames().get(thread.ident or 0), threading.get_ident()
        place = (id(frame), frame and frame.f_lasti)
        before, self._places[asks] = self._places.get(asks), place
        return place == before and _sleeps(thread.native_id)

    def idle_s(self) -> float:
        """For how long, by all that was seen, none of them has gone on."""
        now, frames = real_monotonic(), current_frames()
        threads = [each for each in threading.enumerate() if not is_own(each) and each.ident not in self.pausing]
        tops = [(each.ident, frames.get(each.ident or 0)) for each in threads]
        seen = [(ident, id(frame), frame.f_lasti) for ident, frame in tops if frame is not None]
        asleep = all(_sleeps(each.native_id) for each in threads)
        if seen != self._last or not asleep or not self._since:
            self._last, self._since = (seen if asleep else None), now
        return now - self._since


def _sleeps(native_id: int | None) -> bool:
    """Whether the system has nothing to do for this thread."""
    try:
        status = (_PATH / str(native_id) / "stat").read_bytes()
    except OSError:
        return not _PATH.exists() or native_id == os.getpid()
    return status.rpartition(b") ")[2][:1] == b"S"
