"""The one clock that decides about leases."""

import math
import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds since boot, suspended time included: a laptop that slept has lost its lease and has to know it."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Seconds of a monotonic clock; it may stand still while the machine is suspended."""
        return time.monotonic()


def deadline(timeout: float | None) -> float:
    """The time at which `timeout` seconds from now are over; `math.inf` for None.

    Raises:
        ValueError: `timeout` is negative or not a number.
    """
    if timeout is None:
        return math.inf
    if not timeout >= 0:
        raise ValueError(f"timeout is seconds, 0 or more, or None; got {timeout!r}")
    return now() + timeout
