"""What the commands say of themselves."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner

from loadtest.cli.main import MODULES, cli
from tests.support.rushing import REPOSITORY


def test_make_help_fits_a_small_terminal() -> None:
    """80 columns and 24 lines, with the prompt; the two commands that people need first come first."""
    command = ["make", "--no-print-directory", "help"]  # which a make around the tests would have print it
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=True)
    lines = shown.stdout.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines[1:3]] == [["make", "demo"], ["make", "up"]]
    targets = {line.split()[1] for line in lines if line.startswith("  make ")}
    assert {"demo", "up", "faults", "bench", "test", "lint", "clean"} <= targets


@pytest.mark.parametrize("name", MODULES)
def test_a_summary_is_not_cut(name: str) -> None:
    """The list of commands shows each first sentence to its end."""
    shown = CliRunner().invoke(cli, ["--help"]).output
    (line,) = [line for line in shown.splitlines() if line.split()[:1] == [name]]
    assert line.endswith(".")
    assert not line.endswith("...")
