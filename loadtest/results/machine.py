"""The machine of a measurement, as far as readers need it to compare."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any


def about_machine() -> dict[str, Any]:
    """System, architecture and processors; nothing that names the machine or its owner."""
    about = {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
    try:
        model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        processor = model[1].strip() if model else ""
    except OSError:  # not Linux
        processor = platform.processor()
    return {**about, "processor": processor} if processor else about
