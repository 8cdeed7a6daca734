"""Show a queue."""

from __future__ import annotations

import click

from lock.cli.exit_codes import errors_as_exit_codes
from lock.cli.options import Connection, connection_options, name_argument
from lock.model import Contender, printable
from lock.queue.admission import EXCLUSIVE
from lock.queue.contenders import contenders_of
from lock.queue.names import queue_prefix

_HEADINGS = ("", "token", "queued", "TTL left", "key", "owner")


@click.command("contenders", short_help="Show who holds a lock and who waits for it.")
@name_argument
@connection_options
def contenders(connection: Connection, *, name: str) -> None:
    """Show who holds the lock NAME and who waits for it, in order, with the seconds that their leases have left.

    It joins no queue and writes nothing.
    """
    with errors_as_exit_codes(), connection.open() as client:
        queue = contenders_of(client, queue_prefix(name), EXCLUSIVE)
    if not queue:
        click.echo(f"nobody holds {name}, and nobody waits")
        return
    rows = [_HEADINGS, *(_row(place, contender) for place, contender in enumerate(queue))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(place: int, contender: Contender) -> tuple[str, ...]:
    role = "holds" if place == 0 else f"waits, {place}."
    queued = "" if contender.queued_s is None else f"{contender.queued_s:.1f} s"
    ttl = "" if contender.ttl_s is None else f"{max(contender.ttl_s, 0)} s"
    return role, str(contender.token), queued, ttl, printable(contender.key), contender.owner
