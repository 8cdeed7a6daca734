"""``make setup-dev``: install what ``requirements/NAME.txt`` pins into ``.venv``; needs nothing but Python and POSIX.

A ``.venv`` names its path in its scripts, so a moved one is made anew; so is one whose making was cut short. A second
set-up waits until the first one is over.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin/python"
PLACE = VENV / ".made-at"  # written when .venv is complete
FROM_SOURCE = "etcd3,jieba"  # published as source only; requirements/build.txt builds them
PIP = [str(PYTHON), "-m", "pip", "-qq", "--disable-pip-version-check", "--no-input", "install", "--require-hashes"]
FAILED = "set-up: see above. Without a wheel for this platform, use docker compose up"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for another set-up of this checkout; it ends with its process, however that ends."""
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is under way: waiting for it ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_venv() -> None:
    """Make ``.venv``, unless a complete one is at this path and its Python still exists."""
    if PYTHON.exists() and PLACE.exists() and PLACE.read_text(encoding="utf-8").strip() == str(VENV):
        return
    print(f"Making .venv with {sys.executable} ...", flush=True)
    PLACE.unlink(missing_ok=True)
    venv.create(VENV, clear=True, symlinks=True, with_pip=True)
    PLACE.write_text(f"{VENV}\n", encoding="utf-8")


def install(name: str) -> None:
    """Install the requirements of this name, unless that was done since ``.venv`` or they changed."""
    build, wanted = (ROOT / f"requirements/{each}.txt" for each in ("build", name))
    stamp = VENV / f"{name}.stamp"
    if stamp.exists() and stamp.stat().st_mtime >= max(file.stat().st_mtime for file in (build, wanted, PLACE)):
        return
    print(f"Installing requirements/{name}.txt into .venv (about a minute the first time) ...", flush=True)
    from_source = ("--no-build-isolation", f"--no-binary={FROM_SOURCE}")
    for options in (("-r", build), (*from_source, "-r", wanted)):
        if subprocess.call([*PIP, "--only-binary=:all:", *options], cwd=ROOT):
            sys.exit(FAILED)
    stamp.touch()


if __name__ == "__main__":
    with one_at_a_time():
        make_venv()
        install(sys.argv[1])
