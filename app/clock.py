"""The clock of what is recorded: one for all processes and containers of a machine."""

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now_ns() -> int:
        """Nanoseconds since boot, suspended time included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

else:

    def now_ns() -> int:
        """Nanoseconds of a monotonic clock; it may stand still while the machine is suspended."""
        return time.monotonic_ns()
