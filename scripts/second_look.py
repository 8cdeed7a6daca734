"""Run pytest, and once more, alone, what has failed: python scripts/second_look.py PYTEST-ARGUMENT ...

A test that fails beside others and passes alone does not end the run, but is a fault to mend: the last lines name it,
and those of the last 30 days on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HISTORY = CACHE / "stock-flash-sale/passed-alone"  # a line for each: its date and name
FAILED = Path(".pytest_cache/v/cache/lastfailed")
LATELY = timedelta(days=30)
TESTS_FAILED = 1  # pytest's other codes are of runs that did not come to their end


def run(*arguments: str) -> int:
    """Pytest's exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments]).returncode


def remember(names: list[str]) -> Counter[str]:
    """Add these to the history; how often each test is in it lately."""
    HISTORY.parent.mkdir(parents=True, exist_ok=True)
    with HISTORY.open("a+", encoding="utf-8") as history:
        history.writelines(f"{date.today()} {name}\n" for name in names)
        history.seek(0)
        lines = [line.rstrip("\n").partition(" ") for line in history]
    return Counter(name for day, _, name in lines if date.today() - date.fromisoformat(day) < LATELY)


def main(*arguments: str) -> int:
    """Pytest's exit code, but 0 where every test that failed has passed alone."""
    code, names = run(*arguments, "--cache-clear"), list[str]()
    if code == TESTS_FAILED:
        names = [*json.loads(FAILED.read_text(encoding="utf-8"))]
        code = run(*arguments, "-n0", "--last-failed", "--last-failed-no-failures=none")
    for name, count in remember([] if code else names).most_common():
        print(f"To be mended: fails beside others, passes alone, {count} x in {LATELY.days} days: {name}")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
