"""The commands of python -m loadtest."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

# Each is in the module of its name, which is imported when it is used: all of them take most of a second.
COMMANDS = ["audit", "bench", "compare", "demo", "faults", "report", "up", "workshop"]
IN_BENCH = ["bench-lock", "performance"]


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS + IN_BENCH)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS + IN_BENCH:
            return None
        module = import_module(f"loadtest.cli.{'bench' if cmd_name in IN_BENCH else cmd_name}")
        commands = (each for each in vars(module).values() if isinstance(each, click.Command))
        return next(command for command in commands if command.name == cmd_name)


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
