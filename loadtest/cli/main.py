"""The commands of python -m loadtest: those of the core, and those of the labs."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from types import ModuleType
from typing import NoReturn

import click

from app.contract import labs

# Each is in the module of its name, which is imported when it is used: all of them take most of a second.
CORE = ["compare", "demo", "report", "up"]


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*CORE, *_of_labs()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in CORE:
            return _commands_in(import_module(f"loadtest.cli.{cmd_name}"))[cmd_name]
        return _of_labs().get(cmd_name)


def _of_labs() -> dict[str, click.Command]:
    """The commands in ``commands.py`` of each lab."""
    return {name: command for module in labs.modules("commands") for name, command in _commands_in(module).items()}


def _commands_in(module: ModuleType) -> dict[str, click.Command]:
    return {str(each.name): each for each in vars(module).values() if isinstance(each, click.Command)}


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
