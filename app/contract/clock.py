"""The clock of all records: the same in all processes and containers of a machine."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

if sys.platform == "darwin":
    _CLOCK = time.CLOCK_MONOTONIC_RAW  # the monotonic clock of macOS stands still while the machine is suspended
else:
    _CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


now_ns = partial(time.clock_gettime_ns, _CLOCK)  # nanoseconds since boot, suspended time included


def utc_now() -> str:
    """The time of day for people: ISO 8601, UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Start:
    """The start of a record on both clocks: `now_ns`, and milliseconds since the epoch."""

    boot_ns: int
    epoch_ms: float

    @classmethod
    def now(cls) -> Start:
        return cls(now_ns(), time.time() * 1000)

    def since_boot(self, at_ns: int) -> float:
        return round((at_ns - self.boot_ns) / 1e6, 3)

    def since_epoch(self, at_ms: float) -> float:
        return round(at_ms - self.epoch_ms, 3)

    def drift_ms(self) -> float:
        """Milliseconds by which the time of day was adjusted since then."""
        return abs(time.time() * 1000 - self.epoch_ms - self.elapsed_ms())

    def elapsed_ms(self) -> float:
        return self.since_boot(now_ns())
