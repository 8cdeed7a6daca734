"""The clock of what is recorded: one for all processes and containers of a machine."""

import sys
import time

if sys.platform == "darwin":
    _CLOCK = time.CLOCK_MONOTONIC_RAW  # the monotonic clock of macOS stands still while the machine is suspended
else:
    _CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ns() -> int:
    """Nanoseconds since boot, suspended time included."""
    return time.clock_gettime_ns(_CLOCK)
