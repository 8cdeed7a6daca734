"""How `demo` ends: kept until Ctrl-C, interrupted, or with nobody to read it; nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path

import psutil
import pytest

from loadtest.__main__ import main
from tests.loadtest.cli.test_demo import SMALL, command
from tests.support.rushing import REPOSITORY
from tests.support.waiting import has_ended, wait_until


@contextmanager
def demo_under_way(directory: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A demo in the middle of its rush, and all its descendants."""
    with subprocess.Popen(
        command("demo", "--hold-ms=20"),
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            while "none " not in (line := demo.stdout.readline()):
                assert line, "it ended early"
            yield demo, psutil.Process(demo.pid).children(recursive=True)
        finally:
            demo.kill()


def test_a_demo_that_is_kept_says_where_to_look_and_ends_cleanly(tmp_path: Path) -> None:
    """After the comparison the shops sell on and the board shows it; SIGTERM or Ctrl-C stops all."""
    words = command("demo", "--keep", *SMALL, "--hold-ms=2")
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            said = {}
            while "Send the rush" not in said:
                line = demo.stdout.readline()
                assert line, "it ended early"
                name, _, place = line.rstrip().partition(": ")
                said[name] = place
            for url in [f"{said['Board']}/livez", said["Locust"], *(f"{url}/livez" for url in said["Shops"].split())]:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    assert answer.status == 200
            children = psutil.Process(demo.pid).children(recursive=True)
            demo.send_signal(signal.SIGTERM)
            assert demo.wait(30) == 0
            wait_until(lambda: all(map(has_ended, children)))
        finally:
            demo.kill()
    assert (tmp_path / said["Report"]).exists()
    assert ".venv/bin/locust" in said["Send the rush"]
    assert "FLASHSALE_SECTION_LOG=" in said["Send the rush"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """However it ends, in the middle of the rush: no process is left, and it was no success."""
    with demo_under_way(tmp_path) as (demo, children):
        assert any("locust" in " ".join(child.cmdline()) for child in children)
        demo.send_signal(number)
        rest, _ = demo.communicate(timeout=30)
        wait_until(lambda: all(map(has_ended, children)))
    if number == signal.SIGKILL:
        assert not (tmp_path / "reports/latest").exists()
    else:
        assert demo.returncode == 130
        assert rest.endswith("\nInterrupted: everything is stopped.\n")
        assert list((tmp_path / "reports").iterdir()) == []


STARTS_BUYERS = """
import os, signal, sys
from pathlib import Path
from loadtest.rush import locust_process
from loadtest.stack import guardian
watch = guardian.watch

def interrupted(kind, target):
    print(target, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    watch(kind, target)

guardian.watch = interrupted
with locust_process._running([sys.executable, "-c", "import signal; signal.pause()"], {}, log=Path(os.devnull)):
    pass
"""


def test_an_interrupt_that_meets_the_start_of_the_buyers_leaves_none() -> None:
    """Ctrl-C at the moment in which their process exists, and nobody knows of it yet."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", STARTS_BUYERS], **pipes) as parent:  # type: ignore[call-overload]
        buyers = psutil.Process(int(parent.stdout.readline()))
        try:
            parent.wait(30)
            wait_until(lambda: has_ended(buyers))
        finally:
            with suppress(psutil.NoSuchProcess):
                buyers.kill()
        assert "KeyboardInterrupt" in parent.stderr.read()


def test_who_reads_no_further_is_not_told_of_a_failure(tmp_path: Path) -> None:
    """`demo | head -1` ends with the pipe, and blames nobody."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("demo", *SMALL), cwd=tmp_path, env=env, **pipes) as demo:  # type: ignore[call-overload]
        try:
            assert demo.stdout.readline().startswith(b"Ready: ")
            demo.stdout.close()
            assert demo.wait(100) == 1
            assert demo.stderr.read() == b""
        finally:
            demo.kill()


def test_an_interrupt_at_the_very_beginning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the commands are still being imported has the same words and the same code as later."""

    class Interrupted(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == "loadtest.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "loadtest.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted: everything is stopped.\n"
