"""Show all locks."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict

import click

from lock.cli.contenders import rule_of
from lock.cli.options import Connection, connection_options
from lock.cli.output import cell, seconds, table
from lock.etcd.client import Client
from lock.model import Contender, KeyValue, declaration
from lock.recipes.queued_lock import in_order, ttls_of
from lock.runtime.clock import now

_GO_READER_OR_WRITER = re.compile(r"\d{19}")  # of recipes.RWMutex: nanoseconds since 1970


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
        rows = [_row(name, each, queue) for name, queue in locks.items() for each in queue if each.holds]
        table(("lock", "waiting", "token", "queued", "TTL left", "holder"), rows)


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
    """The name of the lock for which a key stands; "" where it stands for none."""
    name, _, last = kv.key.rpartition("/")
    outer, _, folder = name.rpartition("/")
    if folder in ("read", "write") and (declaration(kv).kind or _GO_READER_OR_WRITER.fullmatch(last)):
        return outer
    return name if kv.lease_id and last.partition("-")[0] == f"{kv.lease_id:x}" else ""


def _row(name: str, holder: Contender, queue: list[Contender]) -> tuple[str, ...]:
    waiting = sum(not each.holds for each in queue)
    return cell(name), str(waiting), str(holder.token), *seconds(holder), holder.owner
