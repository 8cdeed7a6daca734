"""The commands that compare guards: `demo` with a stack of its own, `compare` with one that runs."""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path

import psutil
import pytest

from loadtest.__main__ import main
from loadtest.comparison import Comparison
from loadtest.stack import Stack
from tests.loadtest.rushing import REPOSITORY, environment
from tests.waiting import has_ended, wait_until

SMALL = ["--buyers=60", "--stock=20", "--guard=redis-lua"]


def command(*words: str) -> list[str]:
    """A command of this package."""
    return [sys.executable, "-m", "loadtest", *words]


def run(directory: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in `directory`, which gets its reports."""
    settings = {**(env or os.environ), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command(*words), cwd=directory, env=settings, capture_output=True, text=True, timeout=50)


def test_demo_compares_and_reports(tmp_path: Path) -> None:
    """One command starts everything, adds the unlocked baseline, shows the comparison, keeps it, and exits with 0."""
    done = run(tmp_path, "demo", *SMALL, "--hold-ms=2")
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = Comparison.read(tmp_path / "reports/latest/comparison.json")
    assert (comparison.stock, comparison.buyers) == (20, 60)
    assert [(run.guard, run.verdict.split()[0]) for run in comparison.runs] == [
        ("none", "OVERSOLD"),
        ("redis-lua", "EXACT"),
    ]
    assert {"python", "locust", "flask", "etcd"} <= comparison.versions.keys()
    lines = done.stdout.splitlines()
    assert re.match(r"Ready: etcd, redis, instance-\d+, instance-\d+$", lines[0])
    assert re.search(r"^none +OVERSOLD by \d+: \d+ sold in [\d.]+ s, all clicks within \d+ ms$", done.stdout, re.M)
    assert lines[-2] == comparison.sentence
    assert re.match(r"Report: reports/[\d_-]+/index.html$", lines[-1])
    page = (tmp_path / "reports/latest/index.html").read_text(encoding="utf-8")
    assert html.escape(comparison.sentence) in page
    assert page.count("<svg") == 7  # sold and inside for each of two guards, two waiting times, and the first race
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_demo_fails_if_nothing_is_oversold(tmp_path: Path) -> None:
    """A demonstration in which the unlocked sale harms nobody proves nothing."""
    done = run(tmp_path, "demo", *SMALL, "--buyers=3", "--stock=20")
    assert done.returncode == 1, done.stdout
    assert "proves nothing" in done.stdout


def test_compare_uses_a_running_stack(tmp_path: Path) -> None:
    """`compare` rushes at the shops it is told of, leaves them running, and asks for no baseline."""
    with Stack(tmp_path / "stack", ports="free") as stack:
        done = run(tmp_path, "compare", *SMALL, f"--hosts={','.join(stack.urls)}", env=environment(stack))
        assert all(process.running for process in stack.processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [run.guard for run in Comparison.read(tmp_path / "reports/latest/comparison.json").runs] == ["redis-lua"]


def test_compare_without_a_stack_says_what_to_do(tmp_path: Path) -> None:
    """No shop, no comparison, no report: one line says how to start one."""
    done = run(tmp_path, "compare", "--hosts=http://127.0.0.1:1")
    assert done.returncode == 2
    assert "No shop answers at http://127.0.0.1:1: start it with make up" in done.stdout
    assert not (tmp_path / "reports/latest").exists()


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_kept_says_where_to_look_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """After the comparison the shops sell on and the board shows it; Ctrl-C stops all, with the comparison's code."""
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
            for url in [said["Board"], *said["Shops"].split()]:
                with urllib.request.urlopen(f"{url}/livez", timeout=10) as answer:
                    assert answer.status == 200
            children = psutil.Process(demo.pid).children(recursive=True)
            demo.send_signal(number)
            assert demo.wait(30) == 0
            wait_until(lambda: all(map(has_ended, children)))
        finally:
            demo.kill()
    assert (tmp_path / said["Report"]).exists()
    assert ".venv/bin/locust --headful" in said["Send the rush"]
    assert "FLASHSALE_EVIDENCE=" in said["Send the rush"]


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


@pytest.mark.parametrize("words", [["demo"], ["faults", "kill-holder"], ["compare"]])
def test_reports_that_cannot_be_kept_are_told_at_once(tmp_path: Path, words: list[str]) -> None:
    """Before anything is started, one line names the directory and the reason."""
    (tmp_path / "reports").write_text("mine")
    done = run(tmp_path, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: no report can be kept in {tmp_path}/reports: it is no directory\n"


def test_who_reads_no_further_is_not_told_of_a_failure(tmp_path: Path) -> None:
    """`demo | head -1` ends with the pipe, and blames nobody."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("demo", *SMALL), cwd=tmp_path, env=env, **pipes) as demo:  # type: ignore[call-overload]
        try:
            assert demo.stdout.readline().startswith(b"Ready: ")
            demo.stdout.close()
            assert demo.wait(50) == 1
            assert demo.stderr.read() == b""
        finally:
            demo.kill()


def test_an_interrupt_at_the_very_beginning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the commands are still being imported has the same words and the same code as later."""

    class Interrupted(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == "loadtest.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "loadtest.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted: everything is stopped.\n"
