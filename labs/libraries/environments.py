"""An environment for each library: what ``requirements/NAME.txt`` pins, by hash, in ``build/libraries/NAME``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from loadtest import REPOSITORY

REQUIREMENTS = Path(__file__).with_name("requirements")
BUILD = REPOSITORY / "build" / "libraries"
_BUILDERS = REPOSITORY / "requirements" / "build.txt"  # for what is published as source
_TIMEOUT_S = 900.0


class CannotInstall(Exception):
    """The requirements of a library cannot be installed here; says why."""


def python_of(requirements: str) -> str:
    """The interpreter of an environment that has them, made now if need be; raises CannotInstall."""
    wanted, directory = REQUIREMENTS / f"{requirements}.txt", BUILD / requirements
    python, stamp = directory / "bin" / "python", directory / "installed"
    fingerprint = hashlib.sha256(wanted.read_bytes() + sys.version.encode() + str(directory).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == fingerprint:
        return str(python)
    shutil.rmtree(directory, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(directory)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--disable-pip-version-check"]
    run([*pip, "-r", str(_BUILDERS)])
    run([*pip, "--no-build-isolation", "-r", str(wanted)])
    stamp.write_text(fingerprint)
    return str(python)


def run(command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a command to its end; raises CannotInstall with the last line that tells of an error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=cwd, env=env)
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise CannotInstall(errors[-1] if errors else f"{command[0]} failed")
