"""Go's Mutex, from etcd's own client: compiled here, where a Go toolchain and the source of that client are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_DEBIAN = "/usr/share/gocode"
_PACKAGES = ("go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/clientv3")  # of etcd 3.5 and later, and of 3.4
_BUILD_S = 600.0
_HINT = "apt install golang-go golang-etcd-server-dev"


class GoMissing(Exception):
    """Go's Mutex cannot be measured on this machine; says why."""


def compiled(directory: Path) -> Path:
    """The worker in Go, compiled into this directory; raises GoMissing."""
    go, sources = shutil.which("go"), Path(os.environ.get("GOPATH", _DEBIAN))
    if go is None:
        raise GoMissing(f"there is no Go toolchain on PATH ({_HINT})")
    package = next((each for each in _PACKAGES if (sources / "src" / each / "concurrency").is_dir()), None)
    if package is None:
        raise GoMissing(f"etcd's client for Go is not under {sources} ({_HINT})")
    source = directory / "worker.go"
    source.write_text(Path(__file__).with_name("worker.go").read_text().replace("CLIENT", package))
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": str(sources), "GOCACHE": str(directory / "go")}
    program = directory / "go-worker"
    command = [go, "build", "-o", str(program), str(source)]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    if built.returncode:
        raise GoMissing(f"it does not compile: {built.stderr.strip()}")
    return program
