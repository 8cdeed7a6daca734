"""`scene`: a scene in the terminal, on its own stack; any key goes on."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from app.board.settings import BoardSettings
from app.contract.outcomes import Promise
from app.contract.verdict import Kind
from app.guards import guards
from labs.scenes.scenes import SCENES
from labs.scenes.stage import ITEMS, Countdown, Phase, SceneStage, Step, TooSlow
from loadtest.cli.options import no_pin
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import STAGE_LEASE_S, Stack
from loadtest.terminal import console

TEXTS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "static/texts.json").read_text(encoding="utf-8"))
TOO_SLOW = 2  # exit code
_GUARD = len("etcd-unfenced")


@click.command()
@click.argument("scene", type=click.Choice(list(SCENES)), default="pause")
@no_pin
@click.option("--language", type=click.Choice(list(TEXTS)), default="en", show_default=True, help="Of the texts.")
def scene(scene: str, language: str) -> None:
    """Play a scene phase by phase: pause or kill the holder.

    In a terminal, any key goes on. Exits with 0 if every guard did what it promises, with 2 if the machine was too
    slow.
    """
    texts, screen = TEXTS[language], console()
    env = {"FLASHSALE_LEASE_TTL": str(STAGE_LEASE_S), "FLASHSALE_ITEMS": str(ITEMS)}
    with (
        scratch_directory() as directory,
        screen.status(texts["starting"]) as status,
        Stack(directory, ports="free", board=True, durable=True, env=env) as stack,
    ):
        status.stop()
        assert stack.board is not None
        os.environ.update(stack.board.environment())  # what the board's scenes have
        told = Narrator(texts, screen, status)
        try:
            with closing(SceneStage(BoardSettings.from_environment())) as stage:
                for step in SCENES[scene](stage):
                    told.tell(step)
        except (TooSlow, FutureTimeout):
            screen.print(texts["too_slow"], style="bold red")
            sys.exit(TOO_SLOW)
    sys.exit(0 if told.as_promised else 1)


class Narrator:
    """Says what a scene yields.

    Attributes:
        as_promised: whether each guard has kept its promise so far.
    """

    def __init__(self, texts: dict[str, str], screen: Console, countdown: Status) -> None:
        self._texts, self._screen, self._countdown = texts, screen, countdown
        self.as_promised = True

    def tell(self, step: Step) -> None:
        if isinstance(step, Phase):
            self._screen.print(self._filled(step.text, step.values), markup=False)
            if step.waits:
                click.pause(self._texts["enter"])  # if this is no terminal, it does nothing
        elif isinstance(step, Countdown):
            self._countdown.update(self._filled("lease", {"instance": step.instance, "left": step.left_s}))
            self._countdown.stop() if step.left_s is None else self._countdown.start()
        else:
            is_exact = step.kind == Kind.EXACT
            verdict, text = self._filled(f"kind.{step.kind}", step.values), self._filled(step.text, step.values)
            sentence = f"{step.guard:<{_GUARD}} {verdict}{self._texts['colon']}{text}"
            self._screen.print(sentence, style="bold green" if is_exact else "bold red", markup=False)
            self.as_promised &= is_exact or guards()[step.guard].promise is not Promise.EXACT

    def _filled(self, key: str, values: dict[str, Any]) -> str:
        return self._texts[key].format(**{name: self._texts.get(str(value), value) for name, value in values.items()})
