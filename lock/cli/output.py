"""What the commands print: each record on one line, whatever others wrote into etcd."""

from __future__ import annotations

import logging

import click

from lock.model import cut, printable


def quoted(text: str) -> str:
    """The text itself, or a Python literal where it cannot be printed as it is or begins with a quote."""
    return text if text.isprintable() and text[:1] not in ("'", '"') else repr(text)


def cell(text: str) -> str:
    """The beginning of a text, for a table: quoted where a space could pass for the end of the column."""
    return repr(cut(text)) if " " in text else quoted(cut(text))


def say(message: str) -> None:
    """Print a line for the person at the terminal, on standard error."""
    click.echo(f"etcd-lock: {printable(message)}", err=True)


class Warnings(logging.Handler):
    """Says what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else ""))
