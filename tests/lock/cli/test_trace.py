"""`python -m lock trace`: what it prints is true, and runs as printed; and the observer that it stands on."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loadtest.stack.servers import Etcd
from lock import Client, Mutex, Session, connect
from lock.__main__ import main
from lock.cli.trace import Log, Step
from lock.session import janitor
from tests.support.waiting import in_thread, in_turn, wait_until

WAIT_S = 30.0

Trace = Callable[..., Result]


@pytest.fixture
def trace(etcdctl_env: dict[str, str]) -> Trace:
    return lambda *args: CliRunner().invoke(main, ["trace", *args], env=etcdctl_env)


def test_every_operation_is_printed_with_revision_and_latency(trace: Trace) -> None:
    """Each contender's operations appear in the order of the protocol, and B's token is greater than A's."""
    script = trace("trace/all").stdout
    steps = re.findall(r"^# ([AB])  (\w+) +revision \d+ +(?:\d+\.\d ms|pushed)  \S", script, re.MULTILINE)
    for who, keep_alives in (("A", 1), ("B", 0)):
        calls = [call for contender, call in steps if contender == who and call not in ("Watch", "LeaseTimeToLive")]
        assert calls[0] == "LeaseGrant"
        assert sorted(calls[1:3]) == ["Range", "Txn"]
        assert calls[3:] == ["LeaseKeepAlive"] * keep_alives + ["Txn", "LeaseRevoke"]
        assert "Watch" in [call for contender, call in steps if contender == who]
    first, second = map(int, re.findall(r"^# [AB] holds\. Its fencing token is (\d+)", script, re.MULTILINE))
    assert second > first


def test_what_the_janitor_asks_is_printed(session: Session, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another holds NAME for some seconds, A looks for keys that should be gone."""
    monkeypatch.setattr(janitor, "_STRAYS_S", 0.1)
    note, has_asked = Log.note, threading.Event()

    def heard(log: Log, entry: Step | str) -> None:
        note(log, entry)
        if isinstance(entry, Step) and entry.call == "LeaseTimeToLive":
            has_asked.set()

    monkeypatch.setattr(Log, "note", heard)
    hold = Mutex(session, "trace/long").acquire(timeout=WAIT_S)
    releasing = in_thread(in_turn(lambda: has_asked.wait(WAIT_S), hold.release))
    printed = trace("--timeout", "60", "trace/long")
    releasing.result(WAIT_S)
    assert printed.exit_code == 0, printed.output
    assert re.search(
        r"^# A  LeaseTimeToLive .*\netcdctl lease timetolive --keys \$LEASE_A$", printed.stdout, re.MULTILINE
    )


def test_the_output_runs_as_printed(client: Client, trace: Trace, etcdctl_env: dict[str, str]) -> None:
    """As a script, with etcdctl alone, it queues both, frees both in turn, and leaves neither key nor lease."""
    name = """trace/it's "odd" $HOME `date` \\ \\n ü &"""
    printed = trace(name)
    assert printed.exit_code == 0
    before = client.get_prefix(f"{name}/").revision
    done = subprocess.run(
        ["sh", "-eu"], input=printed.stdout, env=etcdctl_env, capture_output=True, text=True, timeout=WAIT_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("SUCCESS") == 4
    assert "FAILURE" not in done.stdout
    leases = re.findall(r"^lease (\w+) revoked$", done.stdout, re.MULTILINE)
    assert [client.time_to_live(int(lease, 16)).ttl for lease in leases] == [-1, -1]
    after = client.get_prefix(f"{name}/")
    assert after.keys == []
    assert after.revision >= before + 4
    assert f"{name}/{leases[0]}-1" in done.stdout


def test_an_observer_is_told_of_every_answer(etcd: Etcd) -> None:
    """It gets name, request, response and seconds of each call and of each answer to a watch, in both directions."""
    seen: list[tuple[str, Any, Any, float]] = []
    with connect(etcd.endpoint, observer=lambda *answer: seen.append(answer)) as client:
        with Session(client, ttl=10) as session, Mutex(session, "trace/observer").acquire(timeout=WAIT_S) as hold:
            wait_until(lambda: "Watch" in [call for call, *_ in seen])
            [create] = [request for call, request, _, _ in seen if call == "Txn"]
            assert create.success[0].request_put.key.decode() == hold.key
        calls = [call for call, *_ in seen]
        assert calls[0] == "LeaseGrant"
        assert calls.count("Txn") == 2
        assert calls.count("LeaseRevoke") == 1
        assert all(0.0 < seconds < WAIT_S for *_, seconds in seen)
        assert all(response.header.revision > 0 for _, _, response, _ in seen)


def test_an_uncontended_lock_costs_two_writes(counted: Client, calls: Counter[str]) -> None:
    """Acquire and release on a queue that is followed already are one transaction each, and nothing else."""
    with Session(counted, ttl=60) as session:
        mutex = Mutex(session, "trace/cost")
        mutex.acquire(timeout=WAIT_S).release()
        calls.clear()
        for _ in range(10):
            mutex.acquire(timeout=WAIT_S).release()
        assert calls["Txn"] == 20
        assert set(calls) <= {"Txn", "Watch"}
