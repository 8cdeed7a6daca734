"""The adapter in Go, compiled where a toolchain and the source of etcd's client are: Debian has both."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from labs.libraries.environments import BUILD, CannotInstall

SOURCES = Path("/usr/share/gocode")
PACKAGES = ("go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/clientv3")  # of etcd 3.5 and later, and of 3.4
_HINT = "apt install golang-go golang-etcd-server-dev"
_TIMEOUT_S = 900.0


def compiled(adapters: Path) -> str:
    """The program, compiled now if need be; raises CannotInstall."""
    go = shutil.which("go")
    if go is None:
        raise CannotInstall(f"there is no Go toolchain on PATH ({_HINT})")
    package = next((each for each in PACKAGES if (SOURCES / "src" / each / "concurrency").is_dir()), None)
    if package is None:
        raise CannotInstall(f"etcd's client for Go is not under {SOURCES} ({_HINT})")
    directory = BUILD / "go"
    directory.mkdir(parents=True, exist_ok=True)
    texts = {path.name: path.read_text() for path in sorted(adapters.glob("*.go"))}
    version = package_version()
    for name, text in texts.items():
        source, filled = directory / name, text.replace("CLIENT", package).replace("VERSION", version)
        if not source.exists() or source.read_text() != filled:
            source.write_text(filled)
    program = directory / "adapter"
    if not program.exists() or program.stat().st_mtime < max((directory / name).stat().st_mtime for name in texts):
        build(go, directory, program, list(texts))
    return str(program)


def build(go: str, directory: Path, program: Path, sources: list[str]) -> None:
    """Compile; raises CannotInstall."""
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(SOURCES), "GOCACHE": str(directory / "cache")}
    command = [go, "build", "-o", str(program), *sources]
    done = subprocess.run(
        command, cwd=directory, env=env, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise CannotInstall(f"Go does not compile it: {done.stderr.strip()}")


def package_version() -> str:
    """The version of Debian's package of etcd's client; "" where it cannot be told."""
    command = ["dpkg-query", "-W", "-f", "${Version}", "golang-etcd-server-dev"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
