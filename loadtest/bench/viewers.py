"""Whether people who watch the board slow the sale: the rush with viewers connected against the rush without, in pairs.

The viewers of a laptop on stage are browsers on other machines, so they are as cheap here as can be: connections that
take what they are sent and throw it away, in a process of their own. What is measured is what the board itself costs.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from urllib.parse import urlsplit

import click

from loadtest.bench.result import Case
from loadtest.bench.runner import Bench
from loadtest.results.comparison import GUARDS
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import Stack

VIEWERS = 50
PAIRS = 5
MOST = 1.1  # times as long as without viewers
_ARRIVAL_S = 30.0
_LARGEST_READ = 1 << 16


@dataclass(frozen=True)
class Pair:
    """Two rushes, one right after the other; seconds from the first click to the last answer."""

    alone_s: float
    watched_s: float

    @property
    def ratio(self) -> float:
        """How many times as long it took with viewers."""
        return self.watched_s / self.alone_s


def watch(url: str, viewers: int, arrived: Event, done: Event) -> None:
    """Follow the board's stream `viewers` times until `done`; `arrived` when every one has been told something."""
    parts = urlsplit(url)
    request = f"GET /events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
    with selectors.DefaultSelector() as selector:
        silent = set()
        for _ in range(viewers):
            viewer = socket.create_connection((parts.hostname or "", parts.port or 80))
            viewer.sendall(request)
            silent.add(viewer)
            selector.register(viewer, selectors.EVENT_READ)
        while not done.is_set():
            for key, _ in selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(_LARGEST_READ):
                    raise ConnectionError("the board sent a viewer away")
                silent.discard(key.fileobj)
            if not silent:
                arrived.set()


@contextmanager
def watching(url: str, viewers: int) -> Iterator[None]:
    """So many viewers look on inside; raises TimeoutError if they do not all arrive, or one is sent away."""
    context = multiprocessing.get_context("spawn")
    arrived, done = context.Event(), context.Event()
    process = context.Process(target=watch, args=(url, viewers, arrived, done))
    process.start()
    try:
        if not arrived.wait(_ARRIVAL_S):
            raise TimeoutError(f"not all of {viewers} viewers arrived within {_ARRIVAL_S:g} s")
        yield
        if not process.is_alive():
            raise TimeoutError("a viewer was sent away before the end")
    finally:
        done.set()
        process.join()


def measure(pairs: int, viewers: int, case: Case) -> Iterator[Pair]:
    """One pair after the other, on one stack; which of the two comes first alternates."""
    with scratch_directory() as directory, Stack(directory, ports="free", board=True) as stack:
        bench = Bench.on(stack)
        assert stack.board is not None
        bench.run(case)  # warms up
        for number in range(pairs):
            seconds = {}
            for watched in (False, True) if number % 2 else (True, False):
                with watching(stack.board.url, viewers) if watched else nullcontext():
                    seconds[watched] = bench.run(case).wall_s
            yield Pair(seconds[False], seconds[True])


@click.command("bench-viewers")
@click.option("--viewers", default=VIEWERS, show_default=True, type=click.IntRange(1, 100), help="At once.")
@click.option("--pairs", "count", default=PAIRS, show_default=True, type=click.IntRange(1), help="Of rushes.")
@click.option("--guard", default="etcd", show_default=True, type=click.Choice(GUARDS))
def bench_viewers(viewers: int, count: int, guard: str) -> None:
    """Measure whether viewers of the board slow the sale; exits with 1 if it takes more than 1.1 times as long."""
    pairs = []
    for pair in measure(count, viewers, Case("viewers", guard, buyers=500, stock=300)):
        click.echo(f"{pair.alone_s:.3f} s alone, {pair.watched_s:.3f} s with {viewers} viewers: {pair.ratio:.3f}")
        pairs.append(pair)
    median = statistics.median(pair.ratio for pair in pairs)
    click.echo(
        f"Under {guard}, {viewers} viewers make the rush take {median:.3f} times as long (median of {count} pairs)."
    )
    raise SystemExit(0 if median <= MOST else 1)
