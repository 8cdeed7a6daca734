"""Election: one leader, in the queue that `etcdctl elect` uses; observers see every leader there is time to see."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from loadtest.stack import binaries
from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, Election, EtcdUnavailable, Leader, LockLost, LockTimeout, NotHeld, Session, connect
from lock.recipes import election as elections
from lock.recipes.election import Observation
from tests.support.lock import WAIT_S, await_keys, delete, keys, lock_threads
from tests.support.waiting import Patch, assert_goes_on, assert_raises, in_thread, wait_until

Elect = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def election(session: Session, name: str) -> Election:
    return Election(session, name)


@pytest.fixture
def theirs(stranger: Session, name: str) -> Election:
    return Election(stranger, name)


@pytest.fixture
def elect(etcdctl_env: dict[str, str], name: str) -> Iterator[Elect]:
    """Starts `etcdctl elect` of this election, which resigns at the end."""
    with ExitStack() as stack:

        def start(*args: str) -> subprocess.Popen[str]:
            command = [str(binaries.etcdctl()), "elect", name, *args]
            process = stack.enter_context(subprocess.Popen(command, env=etcdctl_env, stdout=subprocess.PIPE, text=True))
            stack.callback(process.send_signal, signal.SIGINT)
            return process

        yield start


def lines(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The next two that it prints: key and value."""
    assert process.stdout is not None
    return process.stdout.readline().strip(), process.stdout.readline().strip()


def test_a_leader_is_named_and_may_proclaim_another_value(
    session: Session, stranger: Session, election: Election, theirs: Election
) -> None:
    """proclaim changes the value, not key or token; a campaign that times out names it; after the end it is NotHeld."""
    with election.campaign("one", timeout=WAIT_S) as first:
        for value in ("two", "one", "drei ü"):
            first.proclaim(value)
            assert election.leader() == Leader(first.key, value, first.token, session.lease_id)
        assert_raises(LockTimeout, theirs.campaign, "late", timeout=0.2, match="drei ü")
    for call in (lambda: first.proclaim("late"), first.release):
        assert_raises(NotHeld, call)
    wait_until(lambda: election.leader() is None)  # the key that has timed out is deleted in the background
    with theirs.campaign("second", timeout=WAIT_S) as second:
        assert second.token > first.token
        assert election.leader() == Leader(second.key, "second", second.token, stranger.lease_id)


def test_proclaiming_over_a_foreign_value(client: Client, name: str) -> None:
    """It replaces what was written by hand, and gives the key its lease back: or it would outlive its session."""
    with Session(client, ttl=60) as session:
        leadership = Election(session, name).campaign("first", timeout=WAIT_S)
        for written, lease_id in (("theirs", 0), ("mine", 0), ("theirs", session.lease_id)):
            client.put(leadership.key, written, lease_id=lease_id)
            leadership.proclaim("mine")
            (kv,) = client.get_prefix(f"{name}/").keys
            assert (kv.value, kv.lease_id) == (b"mine", session.lease_id)
    assert keys(client, name) == []
    assert_raises(LockLost, leadership.release)


def test_a_deposed_leader_overwrites_nothing(
    client: Client, session: Session, election: Election, monkeypatch: Patch
) -> None:
    """Its key was deleted and made anew by hand, and it has not heard of that: what stands there stays as it is."""
    deposed = election.campaign("old", timeout=WAIT_S)
    delete(client, deposed.key)
    client.create(deposed.key, b"by hand", session.lease_id)
    monkeypatch.setattr(deposed, "ensure", lambda: None)
    assert_raises(LockLost, deposed.proclaim, "late")
    assert_raises(LockLost, deposed.release)
    assert [kv.value for kv in client.get_prefix(f"{election.name}/").keys] == [b"by hand"]


def test_observers_see_all_leaders(
    client: Client, election: Election, theirs: Election, elect: Elect, monkeypatch: Patch
) -> None:
    """Ours and `etcdctl elect --listen` see each leader and value from the present one on once, and a vacancy never."""
    monkeypatch.setattr(elections, "_POLL_S", 600.0)  # all is told at once
    first = election.campaign("one", timeout=WAIT_S)
    listening = elect("--listen")
    with theirs.observe() as observation:
        told = next(observation)
        assert (told.key, told.value) == lines(listening) == (first.key, "one")
        first.proclaim("two")
        told = in_thread(next, observation).result(WAIT_S)
        assert (told.key, told.value) == lines(listening) == (first.key, "two")
        elected = elect("three")
        await_keys(client, election.name, 2)
        first.release()
        third = next(observation)
        assert (third.key, third.value) == lines(elected) == lines(listening)
        assert (third.value, third.token > first.token) == ("three", True)
        elected.send_signal(signal.SIGINT)
        elected.wait(WAIT_S)
        reading = in_thread(next, observation)
        assert_goes_on(reading, 0.1)
        with theirs.campaign("four", timeout=WAIT_S):
            assert reading.result(WAIT_S).value == "four"


@pytest.mark.parametrize(
    ("closes", "error"),
    [(Observation.close, StopIteration), (lambda observation: observation._client.close(), EtcdUnavailable)],
)
def test_closing_an_observation_wakes_its_reader(
    etcd: Etcd, election: Election, monkeypatch: Patch, closes: Callable[[Observation], None], error: type
) -> None:
    """From another thread, twice is fine: the iteration ends, or raises that its client was closed; no thread stays."""
    monkeypatch.setattr(elections, "_POLL_S", 600.0)
    with election.campaign("one", timeout=WAIT_S), connect(etcd.endpoint) as client, Session(client) as other:
        observation = Election(other, election.name).observe()
        assert next(observation).value == "one"
        reading = in_thread(next, observation)
        wait_until(lambda: "lock-watch" in lock_threads())
        for _ in range(2):
            closes(observation)
            assert_raises(error, reading.result, WAIT_S)
            assert_raises(error, next, observation)
        observation.close()
        wait_until(lambda: "lock-watch" not in lock_threads())


def test_observing_an_unavailable_etcd_fails_at_once(far_session: Session, proxy: Proxy, name: str) -> None:
    """observe raises EtcdUnavailable instead of waiting in silence for an etcd that was never there."""
    proxy.refuse()
    assert_raises(EtcdUnavailable, Election(far_session, name).observe)
    proxy.start()
