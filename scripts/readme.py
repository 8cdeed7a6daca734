"""Write the generated parts of README.md and docs/ again: python scripts/readme.py (make readme).

A generated part stands between ``<!-- NAME: generated -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.guards import guards  # noqa: E402

README = ROOT / "README.md"
README_ZH = ROOT / "README.zh-CN.md"  # which shows the same output
GUARDS_PAGE = ROOT / "docs/guards.md"
WORKSHOP = ROOT / "docs/workshop.md"
PART = "<!-- {name}: generated -->\n{text}\n<!-- end -->"


def guards_table() -> str:
    """The table of the guards, without those of labs."""
    own = [guard for guard in guards().values() if guard.__module__.startswith("app.")]
    rows = [f"| `{guard.name}` | {guard.description} |" for guard in own]
    return "\n".join(["| guard | what it is, and what it promises |", "|---|---|", *rows])


def run(command: str, *arguments: str) -> str:
    """What a command prints: a real run on this machine."""
    words = [sys.executable, "-m", "loadtest", command, *arguments]
    # As wide as a README is shown.
    process = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, stdout=subprocess.PIPE, text=True, check=True
    )
    lines = [line.rstrip() for line in process.stdout.strip("\n").splitlines()]
    options = f' ARGS="{" ".join(arguments)}"' if arguments else ""
    return "\n".join(["```text", f"$ make {command}{options}", *lines, "```"])


PARTS: dict[Path, dict[str, Callable[[], str]]] = {
    README: {"demo": partial(run, "demo")},
    GUARDS_PAGE: {"guards": guards_table},
    WORKSHOP: {
        "pause": partial(run, "scene", "pause"),
        "atomic": partial(
            run, "demo", *("--guard", "etcd", "--guard", "redis-lua", "--guard", "etcd-batch", "--hold-ms", "5")
        ),
        "payment": partial(run, "payment"),
    },
}


def part(name: str, text: str) -> str:
    """The generated part `name` as it stands in `text`; raises ValueError if it is not there."""
    match = re.search(re.escape(PART.format(name=name, text="\0")).replace("\0", "(.*?)"), text, re.DOTALL)
    if match is None:
        raise ValueError(f"there is no generated part {name!r}")
    return match[1]


def main() -> None:
    """Write every part, or those that are named."""
    for document, parts in PARTS.items():
        for name in filter(parts.__contains__, sys.argv[1:] or parts) if document.exists() else ():
            new = parts[name]()
            for page in (README, README_ZH) if document == README else (document,):
                text = page.read_text(encoding="utf-8")
                old = PART.format(name=name, text=part(name, text))
                page.write_text(text.replace(old, PART.format(name=name, text=new)), encoding="utf-8")


if __name__ == "__main__":
    main()
