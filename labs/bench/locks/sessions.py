"""What a hand-over costs if each waiter is a session, as each pod of a service is: ours and Go's, by their number.

All queue behind one hold. It is released, each takes the lock once, and the last one ends the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from labs.bench.locks.bench import TurnsMissing, run_workers, say_count, told
from labs.bench.locks.worker import PATIENCE_S, SESSIONS
from labs.bench.meters import etcd_served
from labs.bench.tables import ResultTable
from loadtest.stack.servers import Etcd
from lock import Client, Mutex, Session, connect

PROCESSES = 4
GO = "go-sessions"
CANDIDATES = (*SESSIONS, GO)
_SETTLE_S = 1.5  # all lists and watches of those that queue have come


@dataclass(frozen=True)
class HandOverResult:
    """One candidate with a number of sessions."""

    candidate: str
    sessions: int
    ms: float  # milliseconds from one holder to the next
    etcd_cpu_ms: float  # etcd's CPU milliseconds of each
    rpcs: float  # of each, as etcd counted them
    watch_messages: float  # likewise


def measure(candidate: str, sessions: int, etcd: Etcd, *, program: Sequence[str]) -> HandOverResult:
    """Let the sessions of four processes take the lock, one after the other."""
    name = f"bench/{candidate}/{sessions}"
    waiters = sessions * SESSIONS.get(candidate, 1)
    word = "go-burst" if candidate == GO else candidate
    words = [*program, word, etcd.endpoint, "", name, str(waiters // PROCESSES), "0"]
    with (
        connect(etcd.endpoint, timeout=10) as client,
        Session(client, ttl=30) as session,
        run_workers(words, name, etcd, PROCESSES) as workers,
    ):
        hold = Mutex(session, name).acquire(timeout=PATIENCE_S)
        say_count(workers)
        _await_waiters(client, f"{name}/", waiters)
        (calls, events, _), cpu_s, began = etcd_served(etcd), _cpu_s(etcd), time.monotonic()
        hold.release()
        told(workers)
        lasted_s, cpu_s = time.monotonic() - began, _cpu_s(etcd) - cpu_s
        calls_then, events_then, _ = etcd_served(etcd)
    costs = (1000 * lasted_s, 1000 * cpu_s, calls_then - calls, events_then - events)
    return HandOverResult(candidate, sessions, *(cost / waiters for cost in costs))


def _await_waiters(client: Client, prefix: str, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(client.get_prefix(prefix).keys) <= number:
        if time.monotonic() > deadline:
            raise TurnsMissing(f"they did not queue within {PATIENCE_S:g} s")
        time.sleep(0.2)
    time.sleep(_SETTLE_S)


def _cpu_s(etcd: Etcd) -> float:
    return float(sum(psutil.Process(etcd.pid).cpu_times()[:2]))


def table(results: Sequence[HandOverResult]) -> ResultTable:
    """A hand-over if each waiter is a session of one of four processes; RPCs and watch messages are for each."""
    of_go = {result.sessions: result.ms for result in results if result.candidate == GO}
    headings = ["lock", "sessions", "ms", "x Go", "etcd CPU ms", "RPCs", "watch messages"]
    rows = []
    for result in results:
        to_go = f"{result.ms / of_go[result.sessions]:.1f}" if result.sessions in of_go else "-"
        row = [result.candidate, str(result.sessions), f"{result.ms:.2f}", to_go, f"{result.etcd_cpu_ms:.2f}"]
        rows.append([*row, f"{result.rpcs:.1f}", f"{result.watch_messages:.1f}"])
    return ResultTable("hand-overs", str(table.__doc__), headings, rows)
