"""`python -m lock list` and `break`: all locks, and one taken away from its holder."""

from __future__ import annotations

import json
import re

import pytest

from lock import Client, Election, LockLost, Mutex, ReadWriteLock, Semaphore, Session
from tests.lock.cli.conftest import Invoke
from tests.support.lock import WAIT_S, delete, keys, put, queue_up


def test_list_shows_each_lock_below_a_prefix(
    client: Client, session: Session, stranger: Session, invoke: Invoke, name: str
) -> None:
    """A line for each holder of a mutex, an election, readers, and of Go's and etcdctl's keys; no other keys.

    A lock that waits for one below its name stands behind the holder of that one.
    """
    hold = Mutex(session, f"{name}/stock").acquire(timeout=WAIT_S)
    waiting = queue_up(client, Mutex(stranger, f"{name}/stock"))
    prices = ReadWriteLock(session, f"{name}/prices")
    readers = [prices.read.acquire(timeout=WAIT_S) for _ in range(2)]
    leader = Election(session, f"{name}/leader").campaign("me", timeout=WAIT_S)
    lease = client.grant(60).id
    put(client, f"{name}/go/{lease:x}", lease_id=lease)
    put(client, f"{name}/go-rw/write/1764288000000000000", lease_id=lease)
    below = Mutex(session, f"{name}/up/b").acquire(timeout=WAIT_S)
    blocked = queue_up(client, Mutex(stranger, f"{name}/up"))
    data = [put(client, f"{name}/data/{other}").key for other in ("page", "read/notes", "0", "a//0-1")]
    shown = invoke("list", f"{name}/").stdout.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [
        [f"{name}/go", "0"], [f"{name}/go-rw", "0"], [f"{name}/leader", "0"], [f"{name}/prices", "0"],
        [f"{name}/prices", "0"], [f"{name}/stock", "1"], [f"{name}/up", "1"], [f"{name}/up/b", "0"],
    ]  # fmt: skip
    assert shown[-2].split()[2] == shown[-1].split()[2] == str(below.token)
    assert re.match(rf"{name}/stock +1 +{hold.token} +\d+\.\d s +\d+ s +ours \(host .*\)$", shown[-3])
    everything = json.loads(invoke("list", "--json").stdout)
    [stock] = [each for each in everything if each["name"] == f"{name}/stock"]
    told = [(each["token"], each["session"], each["holds"]) for each in stock["contenders"]]
    assert told[0] == (hold.token, "ours", True)
    assert told[1][1:] == ("stranger", False)
    for each in (hold, *readers, leader, below):
        each.release()
    for wait in (waiting, blocked):
        wait.result(WAIT_S).release()
    client.revoke(lease)
    for key in data:
        delete(client, key)
    assert invoke("list", f"{name}/").stdout == f"no lock is held or waited for below {name}/\n"
    assert json.loads(invoke("list", "--json", f"{name}/").stdout) == []


def test_break_takes_the_lock_from_its_holder(
    client: Client, session: Session, stranger: Session, invoke: Invoke, name: str
) -> None:
    """After a question, or with --yes: the next one holds, the holder finds it lost, and the token is told."""
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    waiting = queue_up(client, Mutex(stranger, name))
    refused = invoke("break", name, input="n\n")
    assert (refused.exit_code, f"{name} is held by ours (host " in refused.stderr) == (1, True)
    assert len(keys(client, name)) == 2
    done = invoke("break", name, "--yes")
    assert (done.exit_code, f"Token {hold.token} is fenced off" in done.stdout) == (0, True)
    assert hold.lost.wait(WAIT_S)
    with pytest.raises(LockLost):
        hold.release()
    with waiting.result(WAIT_S) as following:
        assert following.token > hold.token
    assert invoke("break", name, "--yes").stdout == f"{name} has no holder\n"


def test_break_asks_which_of_several_holders(client: Client, session: Session, invoke: Invoke, name: str) -> None:
    """Two permits are held: exit 2 names the tokens, and `--token` breaks that one alone."""
    builds = Semaphore(session, name, limit=2)
    with builds.acquire(timeout=WAIT_S) as other:
        broken = builds.acquire(timeout=WAIT_S)
        first, second = (str(kv.create_revision) for kv in client.get_prefix(f"{name}/").keys)
        several = invoke("break", name, "--yes")
        assert (several.exit_code, f"--token {first} or {second}" in several.stderr) == (2, True)
        assert invoke("break", name, "--yes", "--token", "1").stdout == f"{name} has no holder with token 1\n"
        assert invoke("break", name, "--token", second, input="y\n").exit_code == 0
        assert keys(client, name) == [other.key]
    assert broken.lost.wait(WAIT_S)


def test_break_spares_the_next_holder(
    client: Client, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A holder that releases during the question, and queues again under the same key, keeps its new hold."""
    kv = put(client, f"{name}/key")

    def answer(*_: object, **__: object) -> None:
        delete(client, kv.key)
        put(client, kv.key)

    monkeypatch.setattr("click.confirm", answer)
    assert "was released meanwhile" in invoke("break", name).stdout
    assert keys(client, name) == [kv.key]
    delete(client, kv.key)
