"""The machine that something was measured on, as far as a reader needs to know it to compare."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

_CPUINFO = Path("/proc/cpuinfo")


def about_machine() -> dict[str, Any]:
    """Its system, architecture and processors; nothing that names it or its owner."""
    about = {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
    model = _processor()
    return {**about, "processor": model} if model else about


def _processor() -> str:
    """What the processor calls itself; empty where that cannot be found out."""
    try:
        lines = (line.partition(":") for line in _CPUINFO.read_text(encoding="utf-8").splitlines())
        return next((value.strip() for name, _, value in lines if name.strip() == "model name"), "")
    except OSError:  # not Linux
        return platform.processor()
