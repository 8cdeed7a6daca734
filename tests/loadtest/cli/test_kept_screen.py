"""What a command leaves on the screen: `make workshop` shows it again above each text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

from loadtest.cli import workshop as module
from loadtest.cli.kept_screen import run_and_keep

DRAWS = """
import sys
from rich.console import Console
from rich.live import Live
assert sys.stdout.isatty()
screen = Console()
screen.print("Ready: redis")
with Live(console=screen, auto_refresh=False) as live:
    for sold in range(3):
        live.update(f"guard sold\\n{'-' * screen.width}\\n[bold]none[/]  {sold}00", refresh=True)
with screen.status("stopping everything"):
    pass
screen.print("Nothing was promised.")
sys.exit(3)
"""


def test_the_last_state_of_a_table_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was drawn anew stands once, as wide as the terminal and with its colours; the exit code is told."""
    monkeypatch.setenv("TERM", "xterm")
    command = [sys.executable, "-c", DRAWS]
    code, kept = run_and_keep(command, directory=tmp_path, width=40, height=24)
    assert code == 3
    assert kept[0] == "Ready: redis"
    assert kept[1:3] == ["guard sold", "-" * 40]
    assert "200" in kept[3]
    assert "\x1b[1mnone" in kept[3]
    assert [line for line in kept[4:] if line] == ["Nothing was promised."]


def test_the_table_stands_above_the_text_that_speaks_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """As many of the last lines of a command as a small terminal has room for are shown again, then text and prompt."""
    screen = Console(width=80, height=24, force_terminal=True)
    table = [f"line {number}" for number in range(40)]
    module._speak("word " * 100, table, screen)
    shown = capsys.readouterr().out.partition("\x1b[2J")[2].splitlines()
    assert len(shown) + 1 == 24
    assert shown[0].endswith("line 26")
    assert "line 39" in shown[13]
