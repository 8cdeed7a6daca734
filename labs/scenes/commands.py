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
from labs.scenes.stage import ITEMS, Countdown, Phase, Result, SceneStage, Step, TooSlow
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
        kept = True
        try:
            with closing(SceneStage(BoardSettings.from_environment())) as stage:
                for step in SCENES[scene](stage):
                    tell(step, texts, screen, status)
                    if isinstance(step, Result) and step.kind != Kind.EXACT:
                        kept &= guards()[step.guard].promise is not Promise.EXACT
        except (TooSlow, FutureTimeout):
            screen.print(texts["too_slow"], style="bold red")
            sys.exit(TOO_SLOW)
    sys.exit(0 if kept else 1)


def tell(step: Step, texts: dict[str, str], screen: Console, countdown: Status) -> None:
    """Say what a scene yields."""

    def filled(key: str, values: dict[str, Any]) -> str:
        return texts[key].format(**{name: texts.get(str(value), value) for name, value in values.items()})

    if isinstance(step, Phase):
        screen.print(filled(step.text, step.values), markup=False)
        if step.waits:
            click.pause(texts["enter"])  # if this is no terminal, it does nothing
    elif isinstance(step, Countdown):
        countdown.update(filled("lease", {"instance": step.instance, "left": step.left_s}))
        countdown.stop() if step.left_s is None else countdown.start()
    else:
        verdict, text = filled(f"kind.{step.kind}", step.values), filled(step.text, step.values)
        style = "bold green" if step.kind == Kind.EXACT else "bold red"
        screen.print(f"{step.guard:<{_GUARD}} {verdict}{texts['colon']}{text}", style=style, markup=False)
