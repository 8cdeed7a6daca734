"""`scripts/second_look.py`, by which `.ci/run` runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/second_look.py"
ONCE = """
from pathlib import Path
def test_fails_beside_others():
    if not (seen := Path("seen")).exists():
        seen.touch()
        raise AssertionError
"""
ALWAYS = ONCE + "def test_fails_alone():\n    raise AssertionError\n"
BROKEN = "raise KeyboardInterrupt\n"
NAMED = "To be mended: fails beside others, passes alone, 2 x in 30 days: test_it.py::test_fails_beside_others\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "runs", "code", "last_line"),
    [(ONCE, 2, 0, NAMED), (ALWAYS, 1, 1, ""), (BROKEN, 1, 2, "")],
    ids=["passes alone", "fails again", "interrupted"],
)
def test_what_passes_alone_is_named(tmp_path: Path, text: str, runs: int, code: int, last_line: str) -> None:
    """And counted over the runs; what fails again, or was no test that failed, ends with pytest's code."""
    (tmp_path / "test_it.py").write_text(text)
    words = [sys.executable, str(SCRIPT), "-q", "-p", "xdist.plugin", "-c", os.devnull, f"--rootdir={tmp_path}"]
    for _ in range(runs):
        (tmp_path / "seen").unlink(missing_ok=True)
        done = subprocess.run(
            [*words, "test_it.py"],
            cwd=tmp_path,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.endswith(last_line)
    assert ("To be mended" in done.stdout) is bool(last_line)
