"""`make setup-dev` makes .venv as it should be, in a checkout whose requirements need nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A moved checkout: a .venv names its path, so the one that it has is of no use."""
    directory = tmp_path_factory.mktemp("set-up") / "check out"
    (directory / "requirements").mkdir(parents=True)
    (directory / "scripts").mkdir()
    for file in ("Makefile", "scripts/set_up.py"):
        shutil.copy(ROOT / file, directory / file)
    for name in ("build", "dev"):
        (directory / f"requirements/{name}.txt").write_text("# nothing\n")
    (directory / ".venv/bin").mkdir(parents=True)
    (directory / ".venv/bin/python").symlink_to(sys.executable)
    (directory / ".venv/.made-at").write_text("/elsewhere\n")
    (directory / ".venv/dev.stamp").touch()
    assert f"Making .venv with {sys.executable} ..." in set_up(directory).stdout
    return directory


def set_up(checkout: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Without the environment of a `make test` around this one, in which make says more."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    env |= {"PIP_NO_INDEX": "1", "PYTHON": python}
    return subprocess.run(["make", "setup-dev"], cwd=checkout, env=env, capture_output=True, text=True, timeout=100)


def test_a_set_up_installs_what_has_changed(checkout: Path) -> None:
    """A good .venv is reused silently; changed requirements go into the same one."""
    assert set_up(checkout).stdout == ""
    stamp = checkout / ".venv/dev.stamp"
    os.utime(stamp, (0, 0))
    output = set_up(checkout).stdout
    assert "Installing requirements/dev.txt" in output
    assert "Making" not in output


def test_a_half_made_environment_is_made_anew(checkout: Path) -> None:
    """Without its last file, which says where it is, nothing in .venv counts as installed."""
    (checkout / ".venv/.made-at").unlink()
    (checkout / ".venv/pyvenv.cfg").unlink()
    assert f"Making .venv with {sys.executable} ..." in set_up(checkout).stdout
    assert (checkout / ".venv/pyvenv.cfg").exists()


def test_a_failed_installation_is_repeated(checkout: Path) -> None:
    """A package that cannot be installed ends the set-up with what to do, each time."""
    requirements = checkout / "requirements/dev.txt"
    requirements.write_text(f"nothing==0.0.1 --hash=sha256:{64 * '0'}\n")
    for _ in range(2):
        response = set_up(checkout)
        assert response.returncode != 0
        assert "use docker compose up" in response.stderr
    requirements.write_text("# nothing\n")
    assert set_up(checkout).returncode == 0


def test_without_a_suitable_python_the_set_up_says_what_to_do(checkout: Path, tmp_path: Path) -> None:
    """One that is too old, or does not run, gets one line."""
    (old := tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for python in (str(old), "/nowhere/python"):
        response = set_up(checkout, python)
        assert response.returncode != 0
        assert response.stderr.startswith("set-up: Python 3.10 or newer with venv")
        assert "PYTHON=/path/to/python3.13" in response.stderr.splitlines()[0]
