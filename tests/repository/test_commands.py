"""The commands of the documents can be run as they stand there."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

import click
import pytest

from loadtest.cli.main import cli
from tests.support.labs import needs_labs

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("labs/*/*.md")} - {ROOT / "CHANGELOG.md"})
MAKEFILES = [ROOT / "Makefile", *ROOT.glob("labs/*/targets.mk")]


def words_of(command: str) -> list[str]:
    """A ``make`` command as a name and what follows ARGS=."""
    target, *settings = shlex.split(command.removeprefix("make "))
    return [target, *(word for each in settings for word in shlex.split(each.removeprefix("ARGS=")))]


def commands(text: str) -> list[list[str]]:
    """Each ``make`` command of a text, on a line of its own or quoted."""
    found = re.findall(r"^(?:\$ )?(make [^#\n]*?) *(?:#.*)?$|`(make [^`]*)`", text, re.MULTILINE)
    return [words_of(first or second) for first, second in dict.fromkeys(found)]


@needs_labs
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_command_can_be_run(document: Path) -> None:
    """Its target exists; if it runs a command of ours, scenarios, guards and options are accepted."""
    makefiles = "".join(path.read_text(encoding="utf-8") for path in MAKEFILES)
    for name, *arguments in commands(document.read_text(encoding="utf-8")):
        assert re.search(rf"^(?:[a-z -]* )?{name}(?: [a-z -]*)?:", makefiles, re.MULTILINE), name
        command = cli.get_command(click.Context(cli), name)
        if command is not None and "homemade" not in arguments and "NAME" not in arguments:
            with suppress(click.exceptions.Exit):  # --help
                command.make_context(name, arguments)
