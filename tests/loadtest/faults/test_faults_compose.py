"""Faults in containers: the same scenarios, as far as Docker has the means, and nothing left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.faults.testbed.compose import ComposeTestbed
from loadtest.faults.testbed.containers import Container
from loadtest.faults.testbed.shop import Setup
from loadtest.stack.process import ServerError
from tests.support.commands import running
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[3]


def docker(*words: str) -> str:
    """What a docker command prints, empty where there is no Docker."""
    try:
        return subprocess.run(["docker", *words], capture_output=True, text=True, timeout=60).stdout
    except FileNotFoundError:
        return ""


def in_docker(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that plays in containers."""
    engine = docker("info", "--format", "{{.ServerVersion}}").strip()
    skip = pytest.mark.skipif(not engine, reason="needs a Docker engine")
    marked: Callable[..., None] = pytest.mark.slow(pytest.mark.timeout(600)(skip(test)))
    return marked


def left(pid: int) -> str:
    """Containers, volumes and networks of the project of that process."""
    label = f"label=com.docker.compose.project=stock-flash-sale-faults-{pid}"
    kinds = (["ps", "--all"], ["volume", "ls"], ["network", "ls"])
    return "".join(docker(*kind, "--quiet", "--filter", label) for kind in kinds)


def test_the_file_is_given_what_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value that docker-compose.faults.yml leaves open is set for docker, and no other."""
    script = tmp_path / "docker"
    script.write_text("#!/bin/sh\nenv | sed -n 's/^\\(FAULTS_[A-Z_]*\\)=..*/\\1/p'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    given = set(ComposeTestbed(tmp_path, Setup())._compose("config").split())
    asked = (REPOSITORY / "docker-compose.faults.yml").read_text(encoding="utf-8")
    assert given == set(re.findall(r"\$\{(\w+):\?\}", asked))


def test_no_docker_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without docker, the error says so, and that only --compose needs it."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ServerError, match="no docker command here"):
        Container("shop", 1, lambda: True).pause()


@in_docker
def test_a_frozen_container_oversells(tmp_path: Path) -> None:
    """The same verdicts as without Docker; afterwards nothing of the project is left."""
    words = ["faults", "--compose", "pause-holder", "kill-holder", "--guard=etcd", "--guard=etcd-unfenced"]
    with running(tmp_path, *words, until=": all as expected.") as command:
        assert command.process.wait(60) == 0
    assert left(command.process.pid) == ""


@in_docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_container_is_left_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C or kill -9 while a container is frozen."""
    words = ["faults", "--compose", "pause-holder", "--guard=etcd"]
    with running(tmp_path, *words, until="is frozen") as command:
        assert left(command.process.pid)
        command.end(number, timeout=60)
    wait_until(lambda: not left(command.process.pid), timeout=60)
