"""Take a lock away from its holder."""

import click

from lock.cli.contenders import rule_of
from lock.cli.options import Connection, connection_options, name_argument
from lock.cli.output import quoted
from lock.core.names import queue_prefix
from lock.recipes.queued_lock import contenders_of


@click.command("break", short_help="Take a lock away from its holder.")
@click.option("--token", type=int, metavar="N", help="Only from the holder with this token, as `list` shows it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@name_argument
@connection_options
def break_lock(connection: Connection, *, name: str, token: int | None, yes: bool) -> None:
    """Delete the key that holds the lock NAME, after a question, so that the next in the queue holds.

    The holder goes on running until it notices: what it writes meanwhile, only a fencing token can refuse. Where
    several hold, --token chooses one of them.
    """
    with connection.open() as client:
        queue = contenders_of(client, queue_prefix(name), rule_of)
        holders = [each for each in queue if each.holds and token in (None, each.token)]
        if not holders:
            click.echo(f"{quoted(name)} has no holder" + f" with token {token}" * (token is not None))
            return
        if len(holders) > 1:
            tokens = " or ".join(str(each.token) for each in holders)
            raise click.UsageError(f"{len(holders)} hold: choose by --token {tokens}")
        [holder] = holders
        if not yes:
            click.confirm(f"{quoted(name)} is held by {holder}. Break it?", abort=True, err=True)
        if not client.delete(holder.key, if_=client.requests.created(holder.key, holder.token)):
            click.echo(f"{quoted(name)} was released meanwhile by the holder with token {holder.token}")
            return
    click.echo(
        f"broke {quoted(name)}: deleted {quoted(holder.key)}\n"
        f"Token {holder.token} is fenced off: what checks tokens refuses it as soon as it has seen a higher one.\n"
        "The holder learns of it within about two seconds: `lost` is set, ensure() and release() raise LockLost, and\n"
        "`etcd-lock NAME -- COMMAND` ends its command with exit 76. Until then it may go on writing."
    )
