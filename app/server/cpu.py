"""The CPU of a worker process. On one, its threads hand each other the interpreter without waking another core."""

from __future__ import annotations

import os


def run_on(number: int) -> str:
    """Keep this process on the `number`-th of the CPUs it may use, counted from 0 and modulo how many there are.

    Only threads that start later inherit that. Returns what became of it, for the log: if the system has no
    affinity, or refuses it, the process runs on as before.
    """
    try:
        usable = sorted(os.sched_getaffinity(0))
        cpu = usable[number % len(usable)]
        os.sched_setaffinity(0, {cpu})
    except (AttributeError, OSError) as error:  # AttributeError: macOS
        return f"not kept on one CPU, though FLASHSALE_CPU={number}: {error}"
    return f"all threads on CPU {cpu} of {len(usable)} (FLASHSALE_CPU={number})"
