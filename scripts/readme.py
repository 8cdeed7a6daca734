"""Writes README.md's generated parts anew: python scripts/readme.py (make readme).

A generated part stands between ``<!-- NAME: generated -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.guards import GUARDS, Promise  # noqa: E402

README = ROOT / "README.md"
PART = "<!-- {name}: generated -->\n{text}\n<!-- end -->"
PROMISES = {
    Promise.NONE: "nothing",
    Promise.EXACT_UNTIL_PAUSED: "exact, unless a holder is paused past its lease",
    Promise.EXACT: "exact, also when a holder is paused or killed",
}


def guards() -> str:
    """The table of the guards."""
    rows = [f"| `{guard.name}` | {guard.description} | {PROMISES[guard.promise]} |" for guard in GUARDS]
    return "\n".join(["| guard | what it is | promises |", "|---|---|---|", *rows])


def demo() -> str:
    """What `make demo` prints: a real run on this machine."""
    command = [sys.executable, "-m", "loadtest", "demo"]
    # As wide as a README is shown.
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, stdout=subprocess.PIPE, text=True, check=True
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(["```text", "$ make demo", *lines, "```"])


PARTS: dict[str, Callable[[], str]] = {"demo": demo, "guards": guards}


def part(name: str, text: str) -> str:
    """The generated part `name` as it stands in `text`; raises ValueError if it is not there."""
    found = re.search(re.escape(PART.format(name=name, text="\0")).replace("\0", "(.*?)"), text, re.DOTALL)
    if found is None:
        raise ValueError(f"there is no generated part {name!r}")
    return found[1]


def main() -> None:
    """Write every part, or those that are named."""
    text = README.read_text(encoding="utf-8")
    for name in sys.argv[1:] or PARTS:
        text = text.replace(PART.format(name=name, text=part(name, text)), PART.format(name=name, text=PARTS[name]()))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
