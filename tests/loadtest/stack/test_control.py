"""What the board may ask of the stack, and what the stack says to it."""

from __future__ import annotations

import inspect
import json
import os
import signal
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app.board.sources.stack_client import START_TIMEOUT
from loadtest.stack.control import Control
from loadtest.stack.process import Process
from tests.loadtest.stack.test_servers import Script
from tests.support.waiting import wait_until


def test_a_board_that_waits_no_longer_is_no_defect(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What it asked for is done, and nothing is written between the lines of `up`."""
    script = Script(tmp_path, "import signal; print('ready'); signal.pause()")
    with script, closing(Control([script])) as control:
        with socket.socket(socket.AF_UNIX) as board:
            board.connect(str(control.path))
            board.sendall(json.dumps({"ask": "kill", "instance": "script"}).encode() + b"\n")
        wait_until(lambda: not script.running)
        wait_until(lambda: not any("process_request" in thread.name for thread in threading.enumerate()))
    assert capfd.readouterr().err == ""


def test_what_is_dead_is_neither_frozen_nor_thawed_nor_killed(tmp_path: Path) -> None:
    """Each is refused with the reason, and after a restart nothing of it is left."""
    script = Script(tmp_path, "import signal; print('ready'); signal.pause()")
    with script, closing(Control([script])) as control:
        os.killpg(script.pid, signal.SIGKILL)
        wait_until(lambda: not script.running)
        for ask in ("freeze", "thaw", "kill"):
            assert control.answer({"ask": ask, "instance": "script"}) == {
                "error": "script does not run: start it first"
            }
        assert control.answer({"ask": "start", "instance": "script"}) == {"done": "script has started."}
        assert not script.frozen
        assert control.answer({"ask": "states"}) == {"states": {"script": "running"}}


def test_the_board_hears_why_an_instance_has_not_started() -> None:
    """It waits for longer than the stack does, which then has the last words of the log."""
    stacks_timeout: float = inspect.signature(Process.start).parameters["timeout"].default
    assert stacks_timeout < START_TIMEOUT
