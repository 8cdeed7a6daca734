"""`make workshop`: one window leads through docs/workshop.md; and what the commands say of themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.text import Text

from app.contract import labs
from loadtest.cli import workshop as module
from loadtest.cli.workshop import PAGES, steps_of, workshop
from loadtest.terminal import wrapped
from tests.support.labs import needs_labs
from tests.support.rushing import REPOSITORY
from tests.support.terminal import Terminal


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ran: list[str] = []
    monkeypatch.setattr(module, "_run", lambda step, *_: ran.append(step.command))
    return ran


def lead(keys: str, *words: str) -> str:
    """What the room sees when these lines are typed."""
    done = CliRunner().invoke(workshop, words, input=keys, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("page", [page for page in PAGES.values() if page.exists()], ids=lambda page: page.name)
def test_a_step_has_all_its_parts(page: Path) -> None:
    """Each has a title, a text, a command and something to look at, without pictures and comments."""
    steps = steps_of(page)
    assert [step.title.partition(".")[0] for step in steps] == [str(n + 1) for n in range(len(steps))]
    assert len(steps) >= 6
    for step in steps:
        assert step.before
        assert "**" in step.after[0]
        assert all(answer[0] in "(\uff08" for answer in step.after[1:])
        assert len(step.after) > 1
        assert "<!--" not in "".join([step.before, *step.after])
        assert "<picture" not in "".join([step.before, *step.after])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("这里用 etcd 的锁。", ["这里用 ", "etcd 的", "锁。"]),
        ("持有者停住。等", ["持有者停", "住。等"]),
        ("one two three", ["one two", "three"]),
    ],
    ids=["mixed", "marks", "English"],
)
def test_chinese_is_broken_between_characters(text: str, lines: list[str]) -> None:
    """Not only at spaces, so that lines are full; a mark that closes does not begin a line."""
    assert wrapped(Text(text), 8).plain.split("\n") == [line.rstrip() for line in lines]


@needs_labs
def test_enter_alone_leads_through_everything(runs: list[str]) -> None:
    """Enter runs the command, shows each answer after its question, and goes on; after the last step it is over."""
    steps = steps_of(PAGES["en"])
    shown = lead("".join("\n" + "\n" * len(step.after) for step in steps))
    assert runs == [step.command for step in steps]
    assert all(f"{step.title}  ({number}/{len(steps)})" in shown for number, step in enumerate(steps, 1))
    assert shown.index("Enter: answer") < shown.index("(The items, plus the lost updates")


@needs_labs
def test_steps_are_repeated_skipped_and_taken_back(runs: list[str]) -> None:
    """`r` runs again, `s` skips, `b` goes back, `q` ends; another letter is asked for again."""
    first, second, *_ = steps_of(PAGES["en"])
    lead("\nr\n\n\nx\nb\ns\n\nq\n")
    assert runs == [first.command, first.command, second.command]


def test_what_is_typed_before_a_prompt_is_no_answer_to_it() -> None:
    """An Enter that was pressed while a command ran does not skip the text that comes after it."""
    program = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); print('runs', flush=True);"
        "signal.sigwait([signal.SIGUSR1]); from loadtest import terminal;"
        "print('answer', repr(terminal.ask(terminal.console(), 'Enter: next')))"
    )
    with Terminal([sys.executable, "-c", program], dict(os.environ)) as screen:
        assert screen.shows("runs")
        screen.type("early\n")
        assert screen.shows("early")
        screen.process.send_signal(signal.SIGUSR1)
        assert screen.shows("Enter: next"), screen
        screen.type("now\n")
        assert screen.shows("answer 'now'"), screen


def test_a_step_whose_lab_is_missing_is_left_out(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The room is told, and goes on with the next step."""
    monkeypatch.setattr(labs, "LABS", Path("nowhere"))
    steps = steps_of(PAGES["en"])
    missing = [step for step in steps if step.words[0] != "demo"]
    shown = " ".join(lead("\n" * len(missing) + "q\n").split())
    assert missing
    assert all(f"{step.title} is left out: `{step.command}`" in shown for step in missing)
    assert f"(1/{len(steps) - len(missing)})" in shown


@needs_labs
def test_ctrl_c_ends_the_command_and_not_the_workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room goes on after a command that was interrupted, and is told its exit code."""
    command = tmp_path / "python"
    command.write_text("#!/bin/sh\nkill -INT $PPID\nexit 130\n", encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(command))
    assert lead("\n").count("The command ended with exit code 130.") == 1  # and the end of the input quits


@needs_labs
@pytest.mark.parametrize(
    ("step", "words"), [(1, ["demo", "--guard", "none"]), (4, ["faults", "kill-holder", "--guard", "etcd"])]
)
def test_commands_speak_the_language_of_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, words: list[str]
) -> None:
    """In a Chinese workshop, a demo and a fault get the option too."""
    command, said = tmp_path / "python", tmp_path / "said"
    command.write_text(f'#!/bin/sh\necho "$@" >{said}\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(command))
    lead("s\n" * (step - 1) + "\n", "--language", "zh")
    assert said.read_text(encoding="utf-8").split() == ["-m", "loadtest", *words, "--language", "zh"]


@needs_labs
def test_make_help_fits_a_small_terminal() -> None:
    """80 columns and 24 lines, with the prompt; the two commands that people need first come first."""
    command = ["make", "--no-print-directory", "help"]  # which a make around the tests would have print it
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=True)
    lines = shown.stdout.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines[1:3]] == [["make", "demo"], ["make", "up"]]
    targets = {line.split()[1] for line in lines if line.startswith("  make ")}
    assert {"demo", "up", "faults", "bench", "test", "lint", "clean"} <= targets
