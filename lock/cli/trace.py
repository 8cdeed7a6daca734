"""One lock cycle of two contenders, operation by operation, with the etcdctl command for each."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import click

from lock.cli.etcdctl import EtcdctlScript, shell_word, shown
from lock.cli.options import SECONDS, Connection, connection_options, name_argument
from lock.etcd.transport import Observer
from lock.recipes.mutex import Mutex
from lock.session.session import Session

_TTL_S = 10


class Step(NamedTuple):
    """An answer of etcd to contender `who`."""

    who: str
    call: str
    request: Any
    response: Any
    seconds: float

    def writes(self) -> bool:
        return self.call == "Txn" and self.response.succeeded and not self.request.success[0].HasField("request_range")


class Log:
    """The steps of both contenders in the order in which etcd did them, and remarks."""

    def __init__(self) -> None:
        self.entries: list[Step | str] = []
        self._grown = threading.Condition()

    def of(self, who: str) -> Observer:
        return lambda *answer: self.note(Step(who, *answer))

    def note(self, entry: Step | str) -> None:
        with self._grown:
            self.entries.insert(self._place(entry), entry)
            self._grown.notify_all()

    def _place(self, entry: Step | str) -> int:
        """At the end, but for a write whose answer came after that of somebody who has seen it."""
        place = len(self.entries)
        if isinstance(entry, Step) and entry.writes():
            for last in reversed(self.entries):
                if not isinstance(last, Step) or last.response.header.revision < entry.response.header.revision:
                    break
                place -= 1
        return place

    def wait_for(self, who: str, calls: list[str], *, timeout: float) -> None:
        """Wait until the contender has seen so many of these calls answered, or until the time is over."""

        def seen() -> bool:
            there = Counter(each.call for each in self.entries if isinstance(each, Step) and each.who == who)
            return not Counter(calls) - there

        with self._grown:
            self._grown.wait_for(seen, timeout)


@click.command(short_help="Run one lock cycle, and print it as a script for etcdctl.")
@click.option(
    "--timeout", type=SECONDS, default=5.0, show_default=True, metavar="SECONDS",
    help="Wait no longer than this for others who hold NAME.",
)  # fmt: skip
@name_argument
@connection_options
def trace(connection: Connection, *, name: str, timeout: float) -> None:
    """Let two contenders, A and B, take the lock NAME in turn, and print what they say to etcd.

    For each operation: who, which call, the revision, the latency, what it is for, and the etcdctl command that does
    the same. The output is a shell script: it runs as printed, as a whole or pasted line by line.
    """
    if name.startswith("-"):
        raise click.UsageError(f"etcdctl would take {name!r} for an option: trace a name that begins with another sign")
    log = Log()
    with (
        connection.open(log.of("A")) as a,
        connection.open(log.of("B")) as b,
        Session(a, ttl=_TTL_S, name="A") as session_a,
        Session(b, ttl=_TTL_S, name="B") as session_b,
    ):
        _cycle(session_a, session_b, name, timeout, log)
    lock = shown(os.fsencode(name))
    head = [f"# Two contenders, A and B, take the lock {lock}. Run this script to have etcdctl do the same."]
    head += [f"export {var}={shell_word(os.fsencode(value))}" for var, value in connection.environment().items()]
    head += ["# and ETCDCTL_PASSWORD, which is not printed"] * bool(connection.password)
    click.echo("\n".join([*head, *_lines(log)]).encode())  # keys are UTF-8, whatever the terminal is


def _cycle(session_a: Session, session_b: Session, name: str, timeout: float, log: Log) -> None:
    with ThreadPoolExecutor(1) as pool:
        with Mutex(session_a, name).acquire(timeout=timeout) as first:
            log.note(f"A holds. Its fencing token is {first.token}, the create revision of its key.")
            waiting = pool.submit(Mutex(session_b, name).acquire, timeout=timeout)
            log.wait_for("B", ["Txn", "Watch"], timeout=timeout)
            log.note("B waits, and says nothing more until its watch tells that A's key is gone.")
            session_a.client.keep_alive(session_a.lease_id)
        with waiting.result() as second:
            log.note(f"B holds. Its fencing token is {second.token}: greater than that of A, whichever is faster.")


def _lines(log: Log) -> Iterator[str]:
    """The script: comments of one line, and commands; what others wrote is quoted in both."""
    script = EtcdctlScript()
    for entry in log.entries:
        yield ""
        if isinstance(entry, str):
            yield f"# {entry}"
            continue
        who, call, request, response, seconds = entry
        explanation, *commands = script.step(who, request, response)
        latency = f"{seconds * 1000:6.1f} ms" if commands or call != "Watch" else "   pushed"
        yield f"# {who}  {call:<14} revision {response.header.revision:<6} {latency}  {explanation}"
        yield from commands
    yield ""
    yield from script.end()
