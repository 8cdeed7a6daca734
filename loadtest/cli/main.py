"""The commands of python -m loadtest."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

# The module of each command, imported when the command is used: all of them take most of a second.
MODULES = {
    "audit": "audit",
    "bench": "bench",
    "bench-lock": "bench",
    "compare": "compare",
    "demo": "demo",
    "faults": "faults",
    "performance": "bench",
    "report": "report",
    "simulate": "simulate",
    "up": "up",
    "workshop": "workshop",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        members = vars(import_module(f"loadtest.cli.{MODULES[cmd_name]}")) if cmd_name in MODULES else {}
        commands = (each for each in members.values() if isinstance(each, click.Command))
        return next((command for command in commands if command.name == cmd_name), None)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the flash sale on this machine, without Docker."""


def run() -> NoReturn:
    """Run a command, and exit; an error is one line and an exit code. Raises KeyboardInterrupt."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        sys.exit(cli(prog_name="python -m loadtest", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OSError as error:  # as of a full disk
        sys.exit(f"Error: {error}")
    except click.Abort:
        raise KeyboardInterrupt from None
