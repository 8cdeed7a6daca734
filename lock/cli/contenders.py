"""Show a queue."""

import click

from lock.cli.options import Connection, connection_options, name_argument
from lock.cli.output import cell, quoted, seconds, table
from lock.core.admission import EXCLUSIVE, Admission
from lock.core.names import queue_prefix
from lock.model import UNDECLARED, Contender, KeyValue, declaration
from lock.recipes.queued_lock import contenders_of
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo

_HEADINGS = ("", "token", "queued", "TTL left", "key", "owner")


@click.command("contenders", short_help="Show the holder of a lock, and its waiters.")
@name_argument
@connection_options
def contenders(connection: Connection, *, name: str) -> None:
    """Show the holder of the lock NAME and its waiters, in order, with the seconds that their leases have left.

    Of readers and of permits several hold. It joins no queue and writes nothing.
    """
    with connection.open() as client:
        queue = contenders_of(client, queue_prefix(name), rule_of)
    if not queue:
        click.echo(f"{quoted(name)} is free: no holder, no waiter")
        return
    table(_HEADINGS, [_row(place, contender) for place, contender in enumerate(queue)])


def rule_of(keys: list[KeyValue]) -> Admission:
    """The rule that the queue goes by, as far as its first key tells."""
    declared = declaration(keys[0]) if keys else UNDECLARED
    if declared.limit is not None and declared.limit > 0:
        return UpTo(declared.limit)
    return ReadersTogether() if keys and ReadersTogether().kind(keys[0]) else EXCLUSIVE


def _row(place: int, contender: Contender) -> tuple[str, ...]:
    role = "holds" if contender.holds else f"waits, {place}."
    if contender.kind is not None:
        role += f" ({cell(contender.kind)})"
    return role, str(contender.token), *seconds(contender), cell(contender.key), contender.owner
