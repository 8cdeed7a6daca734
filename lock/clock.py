"""The one clock that decides about leases."""

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds since boot, suspended time included: a laptop that slept has lost its lease and has to know it."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Seconds of a monotonic clock; it may stand still while the machine is suspended."""
        return time.monotonic()
