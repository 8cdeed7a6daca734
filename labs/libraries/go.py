"""The adapter in Go, compiled where a toolchain and the source of etcd's client are: Debian has both."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from labs.libraries.environments import BUILD, CannotInstall, run

SOURCES = Path("/usr/share/gocode")
PACKAGES = ("go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/clientv3")  # of etcd 3.5 and later, and of 3.4
_STATUS = Path("/var/lib/dpkg/status")
_HINT = "apt install golang-go golang-etcd-server-dev"


def compiled(adapters: Path) -> str:
    """The program, compiled now if need be; raises CannotInstall."""
    go = shutil.which("go")
    package = next((each for each in PACKAGES if (SOURCES / "src" / each / "concurrency").is_dir()), None)
    if go is None or package is None:
        raise CannotInstall(f"no Go toolchain on PATH, or no etcd client for Go under {SOURCES} ({_HINT})")
    directory, is_new = BUILD / "go", False
    program = directory / "adapter"
    directory.mkdir(parents=True, exist_ok=True)
    for path in adapters.glob("*.go"):
        source, text = directory / path.name, path.read_text().replace("CLIENT", package)
        text = text.replace("VERSION", package_version())
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
            is_new = True
    if is_new or not program.exists():
        sources = [path.name for path in directory.glob("*.go")]
        env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(SOURCES), "GOCACHE": str(directory / "cache")}
        run([go, "build", "-o", str(program), *sources], cwd=directory, env=env)
    return str(program)


def package_version() -> str:
    """The version of Debian's package of etcd's client; "" where it cannot be told."""
    packages = _STATUS.read_text() if _STATUS.exists() else ""
    found = re.search(r"^Package: golang-etcd-server-dev\n(?:.+\n)*?Version: (\S+)", packages, re.MULTILINE)
    return found[1] if found else ""
