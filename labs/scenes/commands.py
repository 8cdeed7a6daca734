"""`scene`: a scene in the terminal, on its own stack; any key goes on."""

from __future__ import annotations

import json
import os
import sys
import termios
import tty
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from app.board.settings import BoardSettings
from app.contract.outcomes import Promise
from app.contract.verdict import Kind
from app.guards import guards
from labs.scenes.phases import Countdown, Phase, Result, Step
from labs.scenes.scenes import ITEMS, SCENES
from labs.scenes.stage import SceneStage, TooSlow
from loadtest.cli.options import no_pin
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import STAGE_LEASE_S, Stack
from loadtest.terminal import console, wrapped

TEXTS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "static/texts.json").read_text(encoding="utf-8"))
TOO_SLOW = 2  # exit code
_GUARD = len("etcd-unfenced")


@click.command()
@click.argument("scene", type=click.Choice(list(SCENES)), default="pause")
@no_pin
@click.option("--language", type=click.Choice(list(TEXTS)), default="en", show_default=True, help="Of the texts.")
def scene(scene: str, language: str) -> None:
    """Play a scene phase by phase: pause or kill the holder, kill etcd, wipe Redis.

    In a terminal, any key goes on. Exits with 0 if every guard did what it promises, with 2 if the machine was too
    slow.
    """
    texts, screen = TEXTS[language], console()
    with scratch_directory() as directory:
        env = {"FLASHSALE_LEASE_TTL": str(STAGE_LEASE_S), "FLASHSALE_ITEMS": str(ITEMS)}
        stack = Stack(directory, ports="free", board=True, durable=True, env=env)
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
    stage, told = SceneStage(BoardSettings.from_environment(), items=ITEMS), Narrator(texts, screen)
    try:
        for step in SCENES[scene](stage):
            told.tell(step)
    except (TooSlow, FutureTimeout):
        screen.print(texts["too_slow"], style="bold red")
        return TOO_SLOW
    finally:
        told.countdown.stop()
        stage.close()
    return 0 if told.as_promised else 1


class Narrator:
    """Says what a scene yields.

    Attributes:
        as_promised: whether each guard has kept its promise so far.
    """

    def __init__(self, texts: dict[str, str], screen: Console) -> None:
        self._texts, self._screen = texts, screen
        self.countdown = screen.status("")
        self.as_promised = True

    def tell(self, step: Step) -> None:
        if isinstance(step, Phase):
            self._print(self._filled(step.text, step.values))
            if step.waits and self._screen.is_terminal and sys.stdin.isatty():
                _wait_for_a_key(self._texts["enter"], self._screen)
        elif isinstance(step, Countdown):
            self._count_down(step)
        elif isinstance(step, Result):
            self._print_result(step)

    def _count_down(self, step: Countdown) -> None:
        """On a terminal, in a line that goes again."""
        if step.left_s is None:
            self.countdown.stop()
        else:
            self.countdown.update(self._filled("lease", {"instance": step.instance, "left": step.left_s}))
            self.countdown.start()

    def _print_result(self, step: Result) -> None:
        verdict = self._filled(f"kind.{step.kind}", step.values)
        sentence = f"{step.guard:<{_GUARD}} {verdict}{self._texts['colon']}{self._filled(step.text, step.values)}"
        self._print(sentence, "bold green" if step.kind == Kind.EXACT else "bold red")
        kept = step.kind == Kind.EXACT or guards()[step.guard].promise is not Promise.EXACT
        self.as_promised = self.as_promised and kept

    def _filled(self, key: str, values: dict[str, Any]) -> str:
        return self._texts[key].format(**{name: self._texts.get(str(value), value) for name, value in values.items()})

    def _print(self, sentence: str, style: str = "") -> None:
        self._screen.print(wrapped(Text(sentence, style), self._screen.width))


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
