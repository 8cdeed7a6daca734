"""`scene`: a scene in the terminal, on its own stack; any key goes on."""

from __future__ import annotations

import json
import os
import sys
import termios
import tty
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

import click
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from app.board.settings import BoardSettings
from app.contract.verdict import Kind
from labs.scenes.scenes import SCENES, Phase
from labs.scenes.stage import Stage, TooSlow
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import STAGE_LEASE_S, Stack
from loadtest.terminal import console, wrapped

TEXTS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "static/texts.json").read_text(encoding="utf-8"))
TOO_SLOW = 2  # exit code
_GUARD = len("etcd-unfenced")


@click.command()
@click.argument("scene", type=click.Choice(list(SCENES)), default="pause")
@click.option("--language", type=click.Choice(list(TEXTS)), default="en", show_default=True, help="Of the texts.")
def scene(scene: str, language: str) -> None:
    """Play a scene phase by phase: pause or kill the holder, kill etcd, wipe Redis.

    In a terminal, any key goes on. Exits with 0 if every guard did what it promises, with 2 if the machine was too
    slow.
    """
    texts, screen = TEXTS[language], console()
    with scratch_directory() as directory:
        stack = Stack(
            directory, ports="free", board=True, durable=True, env={"FLASHSALE_LEASE_TTL": str(STAGE_LEASE_S)}
        )
        try:
            with screen.status(texts["starting"]):
                stack.start()
            code = _play(scene, stack, texts, screen)
        finally:
            stack.stop()
    sys.exit(code)


def _play(scene: str, stack: Stack, texts: dict[str, str], screen: Console) -> int:
    """Play it; the exit code."""
    assert stack.board is not None
    os.environ.update(stack.board.environment())  # what the board's scenes have
    stage, as_promised = Stage(BoardSettings.from_environment()), True
    outcomes: list[Text] = []
    try:
        for step in SCENES[scene](stage):
            said = texts[step.text].format(**{name: texts.get(value, value) for name, value in step.values.items()})
            if isinstance(step, Phase):
                screen.print(wrapped(Text(said), screen.width))
                if step.waits and screen.is_terminal and sys.stdin.isatty():
                    _wait_for_a_key(texts["enter"], screen)
            else:
                verdict = texts[f"kind.{step.kind}"].format(**step.values)
                outcome = f"{step.guard:<{_GUARD}} {verdict}{texts['colon']}{said}"
                style = "bold green" if step.kind == Kind.EXACT else "bold red"
                outcomes.append(wrapped(Text(outcome, style), screen.width))
                screen.print(*outcomes, "", sep="\n")  # those before it as well, to be compared
                as_promised = as_promised and (step.kind == Kind.EXACT or step.guard == "etcd-unfenced")
    except (TooSlow, FutureTimeout):
        screen.print(texts["too_slow"], style="bold red")
        return TOO_SLOW
    finally:
        stage.close()
    return 0 if as_promised else 1


def _wait_for_a_key(prompt: str, screen: Console) -> None:
    """One that is pressed from now on; the prompt goes with it."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)  # which also drops what was pressed before
    try:
        screen.print(prompt, style="dim", end="")
        os.read(sys.stdin.fileno(), 1)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)
        screen.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
