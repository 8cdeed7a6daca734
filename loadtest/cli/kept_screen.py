"""Run a command on the terminal, and keep what it leaves on the screen."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_READ = 4096
_MOVES = re.compile(r"(\n|\r|\x1b\[\d*[ABJK]|\x1b\[\?25[hl])")


def run_and_keep(words: Sequence[str], *, directory: Path, width: int, height: int) -> tuple[int, list[str]]:
    """Run a command, shown as it comes; its exit code, and the lines that stand on the screen at its end.

    Its output is a terminal of its own, `width` characters by `height` lines, so that it draws as it always does; its
    input is that of this process.
    """
    ours, its = pty.openpty()
    env = {**os.environ, "COLUMNS": str(width), "LINES": str(height)}
    try:
        command = subprocess.Popen(words, cwd=directory, env=env, stdout=its, stderr=its)
    finally:
        os.close(its)
    written = []
    with (
        command,
        os.fdopen(ours, "rb", buffering=0) as output,
        suppress(OSError),
    ):  # Linux: EIO when the command has ended
        while read := output.read(_READ):
            written.append(read)
            sys.stdout.buffer.write(read)
            sys.stdout.buffer.flush()
    return command.returncode, lines_on_screen(b"".join(written).decode(errors="replace"))


def lines_on_screen(output: str) -> list[str]:
    """The lines that stand when all is written: text and colours, after the moves by which a table is drawn anew."""
    lines, row = [""], 0
    for part in _MOVES.split(output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b["):
            row = max(row - int(part[2:-1] or 1), 0)
        elif part.startswith("\x1b[") and part.endswith("K"):
            lines[row] = ""
        elif part != "\r" and not part.startswith("\x1b[?"):
            lines[row] += part
    while lines and not lines[-1]:
        lines.pop()
    return lines
