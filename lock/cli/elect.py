"""Campaign in an election, or watch one."""

import contextlib

import click

from lock.cli.exit_codes import Signals, Stopped, stay
from lock.cli.options import Connection, connection_options, name_argument, ttl_option
from lock.cli.output import quoted
from lock.core.names import queue_prefix
from lock.recipes.election import Election, Observation
from lock.session.session import Session


@click.command(short_help="Campaign in an election, or watch one.")
@click.option("--listen", "-l", is_flag=True, help="Print each leader, and each value it proclaims, until a signal.")
@ttl_option
@name_argument
@click.argument("value", required=False)
@connection_options
def elect(connection: Connection, *, name: str, value: str | None, listen: bool, ttl: int) -> None:
    """Campaign in the election NAME and lead.

    Waits until elected, prints the leader's key and VALUE on two lines, and leads until SIGINT, SIGTERM or SIGHUP; then
    it resigns and exits 0. It takes part in the same elections as ``etcdctl elect``.
    """
    if (value is None) != listen:
        raise click.UsageError("give either the VALUE to campaign with, or --listen")
    with Signals().handled(), connection.open() as client:
        if value is not None:
            with Session(client, ttl=ttl) as session, Election(session, name).campaign(value) as leadership:
                code = stay(leadership.lost, leadership.key, value)
        else:
            code = 0
            with Observation(client, queue_prefix(name)) as observation, contextlib.suppress(Stopped):
                for leader in observation:
                    click.echo(f"{quoted(leader.key)}\n{quoted(leader.value)}")
    click.get_current_context().exit(code)
