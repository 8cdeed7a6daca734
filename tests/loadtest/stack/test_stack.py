"""The stack: its ports, its shops, and what its board tells of it."""

from __future__ import annotations

import json
import shlex
import urllib.request
from pathlib import Path

from loadtest.stack.ports import is_occupied
from loadtest.stack.stack import Stack, usage_hints


def test_each_instance_sells_under_its_own_name(tmp_path: Path) -> None:
    """Every shop of the stack answers at its URL, with the name of its process; afterwards the ports are free."""
    with Stack(tmp_path, ports="free", env={"FLASHSALE_STOCK": "7"}) as stack:
        for instance, url in zip(stack.instances, stack.urls, strict=True):
            with urllib.request.urlopen(f"{url}/stock", timeout=5) as response:
                answer = json.load(response)
            assert answer["instance"] == instance.name
            assert answer["stock"] == 7
    assert not any(is_occupied(process.port) for process in stack.processes)
    assert [instance.returncode for instance in stack.instances] == [0, 0]


def test_default_ports_are_those_of_the_compose_file(tmp_path: Path) -> None:
    """Without options, the stack is where docker compose puts it; an offset moves all of it."""
    assert [process.port for process in Stack(tmp_path, board=True).processes] == [2379, 6379, 8080, 8090, 8070]
    moved = Stack(tmp_path, port_offset=1000, board=True)
    assert [process.port for process in moved.processes] == [3379, 7379, 9080, 9090, 9070]
    assert (Stack(tmp_path).locust_port, moved.locust_port) == (8089, 9089)


def test_the_board_knows_how_to_start_locust(tmp_path: Path) -> None:
    """Its hint is the line of make up, as a shell takes it: Locust's page where the board looks for it, with the
    section log, without which a report would have no timelines.
    """
    with Stack(tmp_path / "a stack", ports="free", board=True) as stack:
        assert stack.board is not None
        with urllib.request.urlopen(f"{stack.board.url}/setup", timeout=5) as response:
            setup = json.load(response)
    command = setup["locust_command"]
    assert command == usage_hints(stack)["Send the rush"]
    settings = {f"{name}={value}" for name, value in stack.client_environment.items()}
    page = ["--web-port", str(stack.locust_port), "--host", ",".join(stack.urls)]
    assert set(shlex.split(command)) == {*settings, ".venv/bin/locust", "--headful", *page}
    assert setup["locust"] == f"http://127.0.0.1:{stack.locust_port}"
    assert f"FLASHSALE_SECTION_LOG={stack.section_log}" in settings
