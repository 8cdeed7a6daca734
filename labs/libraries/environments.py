"""What an adapter runs in, made in ``build/libraries``.

For Python an environment with what ``requirements/NAME.txt`` pins, by hash; for Go a program, compiled if a compiler
and the source of etcd's client are: Debian has both.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from labs.libraries.program import NotTried, last_error
from loadtest import REPOSITORY

REQUIREMENTS = Path(__file__).with_name("requirements")
BUILD = REPOSITORY / "build" / "libraries"
_BUILDERS = REPOSITORY / "requirements" / "build.txt"  # for what is published as source
_GO_SOURCES = Path("/usr/share/gocode")
_GO_CLIENTS = ("go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/clientv3")  # of etcd 3.5 and later, and of 3.4
_DEBIAN = Path("/var/lib/dpkg/status")
_TIMEOUT_S = 900.0


def python_of(requirements: str) -> str:
    """The interpreter of an environment that has them, made now if need be; raises NotTried."""
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


def compiled_go(adapters: Path) -> str:
    """The program made of the adapter in Go, compiled now if need be; raises NotTried."""
    go = shutil.which("go")
    client = next((each for each in _GO_CLIENTS if (_GO_SOURCES / "src" / each / "concurrency").is_dir()), None)
    if go is None or client is None:
        raise NotTried("Go or etcd's client for Go is not here (apt install golang-go golang-etcd-server-dev)")
    packages = _DEBIAN.read_text() if _DEBIAN.exists() else ""
    version = re.search(r"^Package: golang-etcd-server-dev\n(?:.+\n)*?Version: (\S+)", packages, re.MULTILINE)
    texts = {path.name: path.read_text().replace("CLIENT", client) for path in sorted(adapters.glob("*.go"))}
    texts = {name: text.replace("VERSION", f"client {version[1]}" if version else "") for name, text in texts.items()}
    directory = BUILD / f"go-{hashlib.sha256(repr(texts).encode()).hexdigest()[:12]}"
    if not (directory / "adapter").exists():
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (directory / name).write_text(text)
        env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(_GO_SOURCES), "GOCACHE": str(BUILD / "go-cache")}
        run([go, "build", "-o", "adapter", *texts], cwd=directory, env=env)
    return str(directory / "adapter")


def run(command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a command to its end; raises NotTried."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=cwd, env=env)
    if done.returncode:
        raise NotTried(last_error(done.stdout + done.stderr) or f"{command[0]} failed")
