"""Hold a lock until a signal, or while a command runs."""

import contextlib
import shlex
from functools import partial
from typing import Any

import click

from lock.cli.child import Child
from lock.cli.exit_codes import Exit, Signals, Stopped
from lock.cli.options import SECONDS, Connection, connection_options, name_argument, ttl_option
from lock.cli.output import quoted, say
from lock.etcd.client import Client
from lock.recipes.hold import HeldKey, Hold
from lock.recipes.mutex import Mutex
from lock.recipes.queued_lock import QueuedLock
from lock.recipes.read_write import ReadWriteLock
from lock.recipes.semaphore import Semaphore
from lock.session.session import Session


class _BeforeDashes(click.Command):
    """Options stand anywhere before ``--``; what stands behind it is the command to run, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        if args[at:] == ["--"]:
            raise click.UsageError("a command is missing behind --", ctx)
        ctx.meta[__name__] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])


@click.command(cls=_BeforeDashes, short_help="Hold a lock until a signal, or while a command runs (the default).")
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Wait no longer than this.")
@click.option("--try", "try_", is_flag=True, help="Do not wait at all.")
@ttl_option
@click.option(
    "--grace", type=SECONDS, default=5.0, show_default=True, metavar="SECONDS",
    help="Time a child has between SIGTERM and SIGKILL when the lock is lost.",
)  # fmt: skip
@click.option("--shared", is_flag=True, help="Hold it together with others that share, as a reader.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Let N hold it; all have to give the same N.")
@name_argument
@click.argument("extra", nargs=-1, metavar="[-- COMMAND [ARG ...]]")
@connection_options
def hold(
    connection: Connection,
    *,
    name: str,
    extra: tuple[str, ...],
    timeout: float | None,
    try_: bool,
    ttl: int,
    grace: float,
    shared: bool,
    limit: int | None,
) -> None:
    """Wait for the lock NAME and hold it.

    Without a COMMAND: print the key that holds and, on a second line, the fencing token; hold until SIGINT, SIGTERM or
    SIGHUP; free the lock; exit 0.

    With a COMMAND: run it while the lock is held, with ETCD_LOCK_KEY, ETCD_LOCK_REV (the revision at which it was
    found held) and LOCK_TOKEN (the fencing token) in its environment; pass SIGINT, SIGTERM, SIGHUP and SIGQUIT on to it
    and its children, SIGUSR1 and SIGUSR2 to it alone; exit with its code, or with 128+N if signal N ended it. When
    the lock is lost, or this process is killed, it and its children are ended.

    With --limit there is no fencing token, for none of several holders is the last.
    """
    ctx = click.get_current_context()
    command: list[str] = ctx.meta[__name__]
    if extra:
        raise click.UsageError(f"write -- in front of the command: {shlex.join([name, '--', *extra])}")
    if try_ and timeout is not None:
        raise click.UsageError("--try does not wait, so it takes no --timeout")
    if shared and limit is not None:
        raise click.UsageError("--shared lets any number hold, --limit N as many as that: give one of them")
    with (
        Signals().handled() as signals,
        Child(command, grace) if command else contextlib.nullcontext() as child,
        connection.open() as client,
        Session(client, ttl=ttl) as session,
        _recipe(session, name, shared, limit).acquire(timeout=0 if try_ else timeout) as held,
    ):
        token = {"LOCK_TOKEN": str(held.token)} if isinstance(held, Hold) else {}
        code = _run(held, token, client, signals, child) if child else _stay(held, *token.values())
    ctx.exit(code)


def _recipe(session: Session, name: str, shared: bool, limit: int | None) -> QueuedLock[Any]:
    if limit is not None:
        return Semaphore(session, name, limit)
    return ReadWriteLock(session, name).read if shared else Mutex(session, name)


def _stay(held: HeldKey, *token: str) -> int:
    """Print what is held, and hold it until a signal; the exit code."""
    try:
        click.echo("\n".join([quoted(held.key), *token]))
        held.lost.wait()
    except Stopped:
        return 0
    return Exit.LOST  # why, the release tells


def _run(held: HeldKey, token: dict[str, str], client: Client, signals: Signals, child: Child) -> int:
    environment = {"ETCD_LOCK_KEY": held.key, "ETCD_LOCK_REV": str(client.get_prefix(held.key).revision), **token}
    held.ensure()
    try:
        signals.launch(partial(child.start, environment, held.remaining()), child.signal)
        code = child.wait(held)
    except OSError as error:
        say(f"cannot run {child.command[0]!r}: {error.strerror}")
        return Exit.NO_SUCH_COMMAND if isinstance(error, FileNotFoundError) else Exit.CANNOT_RUN
    if code is None:
        is_lost = held.remaining() == 0.0
        if is_lost:
            reason = "the lock is lost"
        elif child.was_ended:
            reason = "this process stood still until the lease was about to end"
        else:
            reason = "the guardian was killed"
        say(f"{reason}: ending the command")
        child.end()
        return Exit.LOST if is_lost or child.was_ended else Exit.FAILED
    return code
