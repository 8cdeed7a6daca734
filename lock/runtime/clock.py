"""The one clock that decides about leases."""

import sys
import time
from collections.abc import Callable
from functools import partial

if sys.platform == "darwin":
    CLOCK = time.CLOCK_MONOTONIC_RAW  # the monotonic clock of macOS stands still while the machine is suspended
else:
    CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

# Seconds since boot, suspended time included: a laptop that slept has lost its lease and has to know it.
now: Callable[[], float] = partial(time.clock_gettime, CLOCK)


def is_whole(number: float) -> bool:
    """Whether it is 1, 2, 3 and so on, for `check_number`."""
    return isinstance(number, int) and number >= 1


def check_number(value: object, is_right: Callable[[float], bool], rule: str) -> None:
    """Refuse what is not a number with a TypeError, and what is not right with a ValueError; both say the rule."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{rule}; got {value!r}")
    if not is_right(value):
        raise ValueError(f"{rule}; got {value!r}")
