"""Show the queue of a lock, or all locks; and take a lock away from its holder."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict

import click

from lock.cli.options import Connection, connection_options, name_argument
from lock.cli.output import cell, quoted, seconds, table
from lock.core.admission import EXCLUSIVE, Admission
from lock.etcd.client import Client
from lock.model import UNDECLARED, Contender, KeyValue, declaration
from lock.names import queue_prefix
from lock.recipes.queued_lock import contenders_of, in_order, ttls_of
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo
from lock.runtime.clock import now

_GO_READER_OR_WRITER = re.compile(r"\d{19}")  # of recipes.RWMutex: nanoseconds since 1970


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
    headings = ("", "token", "queued", "TTL left", "key", "owner")
    table(headings, [_contender(place, contender) for place, contender in enumerate(queue)])


@click.command("list", short_help="Show all locks below a prefix.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: each lock with its contenders, holders first.")
@click.argument("prefix", default="")
@connection_options
def list_locks(connection: Connection, *, prefix: str, as_json: bool) -> None:
    """Show all locks and elections whose keys begin with PREFIX: a line for each holder.

    It knows them by keys that are named after their lease, as those of etcdctl and Go's client are. It reads whatever
    stands below PREFIX, and writes nothing.
    """
    with connection.open() as client:
        locks = dict(_locks(client, prefix))
    if as_json:
        listed = [{"name": name, "contenders": [*map(asdict, queue)]} for name, queue in locks.items()]
        click.echo(json.dumps(listed, indent=2))
    elif not locks:
        click.echo("no lock is held or waited for" + f" below {cell(prefix)}" * bool(prefix))
    else:
        rows = [_holder(name, each, queue) for name, queue in locks.items() for each in queue if each.holds]
        table(("lock", "waiting", "token", "queued", "TTL left", "holder"), rows)


@click.command("break", short_help="Take a lock away from its holder.")
@click.option("--token", type=int, metavar="N", help="Only from the holder with this token, as `list` shows it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@name_argument
@connection_options
def break_lock(connection: Connection, *, name: str, token: int | None, yes: bool) -> None:
    """Delete the key that holds the lock NAME, after a question, so that the next in the queue holds.

    The holder goes on running until it notices: what it writes meanwhile, only a fencing token can refuse. If
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


def rule_of(keys: list[KeyValue]) -> Admission:
    """The rule that the queue goes by, as far as its first key tells."""
    declared = declaration(keys[0]) if keys else UNDECLARED
    if declared.limit is not None and declared.limit > 0:
        return UpTo(declared.limit)
    return ReadersTogether() if keys and ReadersTogether().kind(keys[0]) else EXCLUSIVE


def _contender(place: int, contender: Contender) -> tuple[str, ...]:
    role = "holds" if contender.holds else f"waits, {place}."
    if contender.kind is not None:
        role += f" ({cell(contender.kind)})"
    return role, str(contender.token), *seconds(contender), cell(contender.key), contender.owner


def _locks(client: Client, prefix: str) -> Iterator[tuple[str, list[Contender]]]:
    until = now() + client.timeout
    keys = client.get_prefix(prefix).keys
    queues: dict[str, list[KeyValue]] = {name: [] for name in sorted({*map(_lock_of, keys)} - {""})}
    for kv in keys:  # a lock also waits for the keys of locks below it
        for slash in re.finditer("/", kv.key):
            queues.get(kv.key[: slash.start()], []).append(kv)
    ttls = ttls_of(client, [kv for queue in queues.values() for kv in queue], until)
    for name, queue in queues.items():
        yield name, in_order(queue, rule_of(queue), ttls)


def _lock_of(kv: KeyValue) -> str:
    """The name of the lock for which a key stands; "" if it stands for none."""
    name, _, last = kv.key.rpartition("/")
    outer, _, folder = name.rpartition("/")
    if folder in ("read", "write") and (declaration(kv).kind or _GO_READER_OR_WRITER.fullmatch(last)):
        return outer
    return name if kv.lease_id and last.partition("-")[0] == f"{kv.lease_id:x}" else ""


def _holder(name: str, holder: Contender, queue: list[Contender]) -> tuple[str, ...]:
    waiting = sum(not each.holds for each in queue)
    return cell(name), str(waiting), str(holder.token), *seconds(holder), holder.owner
