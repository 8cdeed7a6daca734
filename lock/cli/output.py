"""What the commands print: each record on one line, whatever others wrote into etcd."""

import logging
from collections.abc import Iterable

import click

from lock.model import Contender, cut, printable


def quoted(text: str) -> str:
    """The text itself, or a Python literal if it cannot be printed as it is or begins with a quote."""
    return text if text.isprintable() and text[:1] not in ("'", '"') else repr(text)


def cell(text: str) -> str:
    """The beginning of a text, for a table: quoted if a space could pass for the end of the column."""
    return repr(cut(text)) if " " in text else quoted(cut(text))


def seconds(contender: Contender) -> tuple[str, str]:
    """Seconds for a table: since when it is in the queue, and what is left of its lease."""
    queued = "" if contender.queued_s is None else f"{contender.queued_s:.1f} s"
    ttl = "" if contender.ttl_s is None else f"{max(contender.ttl_s, 0)} s"
    return queued, ttl


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows of cells, in columns."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(each.ljust(width) for each, width in zip(line, widths, strict=True)).rstrip())


def say(message: str) -> None:
    """Print a line for the person at the terminal, on standard error."""
    click.echo(f"etcd-lock: {printable(message)}", err=True)


class Warnings(logging.Handler):
    """Says what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else ""))
