"""Election: one leader, in the queue that `etcdctl elect` uses; observers see every leader there is time to see."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.stack import programs
from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import (
    Client,
    Election,
    EtcdUnavailable,
    Leader,
    LockLost,
    LockTimeout,
    NotHeld,
    Session,
    connect,
)
from tests.support.lock import WAIT_S, in_thread, lock_threads
from tests.support.waiting import wait_until

Elect = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def elect(etcdctl_env: dict[str, str]) -> Iterator[Elect]:
    """Starts `etcdctl elect`, which resigns at the end."""
    running: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        command = [str(programs.etcdctl()), "elect", *args]
        running.append(subprocess.Popen(command, env=etcdctl_env, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)


def values(client: Client, name: str) -> list[str]:
    """What the candidates of an election have proclaimed, the leader's first."""
    return [kv.value.decode() for kv in client.get_prefix(f"{name}/").keys]


def test_candidates_lead_in_the_order_of_their_campaigns(client: Client, session: Session, stranger: Session) -> None:
    """One leads at a time; when it resigns, the next in line does, with a greater token."""
    with ThreadPoolExecutor(1) as pool:
        first = Election(session, "election/order").campaign("first", timeout=WAIT_S)
        waiting = pool.submit(Election(stranger, "election/order").campaign, "second", timeout=WAIT_S)
        wait_until(lambda: values(client, "election/order") == ["first", "second"])
        assert not waiting.done()
        first.resign()
        with waiting.result(WAIT_S) as second:
            assert second.token > first.token
            leader = Election(session, "election/order").leader()
            assert leader == Leader(second.key, "second", second.token, stranger.lease_id)
    assert Election(session, "election/order").leader() is None
    with pytest.raises(NotHeld):
        first.resign()


def test_a_leader_proclaims_another_value(client: Client, session: Session) -> None:
    """proclaim changes the value, not key or token; after resigning it is NotHeld."""
    election = Election(session, "election/proclaim")
    with election.campaign("one", timeout=WAIT_S) as leadership:
        for value in ("two", "one", "drei ü"):
            leadership.proclaim(value)
            leader = election.leader()
            assert leader is not None
            assert (leader.value, leader.token, leader.key) == (value, leadership.token, leadership.key)
            assert leader.lease_id == session.lease_id
    with pytest.raises(NotHeld):
        leadership.proclaim("late")
    assert election.leader() is None


@pytest.mark.parametrize("theirs", ["theirs", "mine"])
@pytest.mark.parametrize("leased", [True, False])
def test_proclaiming_over_a_strangers_value(
    client: Client, etcdctl: Callable[..., str], theirs: str, leased: bool, name: str
) -> None:
    """A value that was written by hand is proclaimed over, and the key gets its lease back.

    A stranger's write without a lease would let the key outlive its session, and block the election for ever.
    """
    with Session(client, ttl=60) as session:
        leadership = Election(session, name).campaign("first", timeout=WAIT_S)
        etcdctl("put", leadership.key, theirs, *([f"--lease={session.lease_id:x}"] if leased else []))
        leadership.proclaim("mine")
        (kv,) = client.get_prefix(f"{name}/").keys
        assert (kv.value, kv.lease_id) == (b"mine", session.lease_id)
    assert values(client, name) == []
    with pytest.raises(LockLost):
        leadership.resign()


def test_a_deposed_leader_cannot_proclaim(client: Client, session: Session, stranger: Session) -> None:
    """After its key was deleted a leader is told, and its late proclamation changes nothing."""
    deposed = Election(session, "election/deposed").campaign("old", timeout=WAIT_S)
    client.delete(deposed.key, deposed.token)
    with Election(stranger, "election/deposed").campaign("new", timeout=WAIT_S):
        with pytest.raises(LockLost):
            deposed.proclaim("late")
        assert values(client, "election/deposed") == ["new"]
    with pytest.raises(LockLost):
        deposed.resign()


def test_a_deposed_leader_leaves_alone_what_has_come_instead(
    client: Client, session: Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key was deleted and made anew by hand, and it has not heard of that: what stands there stays as it is."""
    deposed = Election(session, name).campaign("old", timeout=WAIT_S)
    client.delete(deposed.key, deposed.token)
    client.create(deposed.key, b"by hand", session.lease_id)
    monkeypatch.setattr(deposed, "ensure", lambda: None)
    with pytest.raises(LockLost):
        deposed.proclaim("late")
    with pytest.raises(LockLost):
        deposed.resign()
    assert values(client, name) == ["by hand"]


def test_a_campaign_that_times_out_names_the_leaders_value(session: Session, stranger: Session, name: str) -> None:
    """LockTimeout shows what the leader has proclaimed."""
    with (
        Election(stranger, name).campaign("10.0.0.7:8080", timeout=WAIT_S),
        pytest.raises(LockTimeout, match=r"10\.0\.0\.7:8080"),
    ):
        Election(session, name).campaign("other", timeout=0.5)


def test_etcdctl_campaigns_against_us_and_we_against_it(client: Client, session: Session, elect: Elect) -> None:
    """`etcdctl elect` waits for our leader, leads after it, and we wait for etcdctl's."""
    election = Election(session, "election/both")
    ours = election.campaign("python", timeout=WAIT_S)
    theirs = elect("election/both", "etcdctl")
    wait_until(lambda: values(client, "election/both") == ["python", "etcdctl"])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(election.campaign, "python again", timeout=WAIT_S)
        wait_until(lambda: len(values(client, "election/both")) == 3)
        ours.resign()
        assert theirs.stdout is not None
        assert theirs.stdout.readline().startswith("election/both/")
        assert theirs.stdout.readline() == "etcdctl\n"
        assert not waiting.done()
        theirs.send_signal(signal.SIGINT)
        with waiting.result(WAIT_S):
            assert values(client, "election/both") == ["python again"]


def test_etcdctl_observes_our_leaders(session: Session, elect: Elect) -> None:
    """`etcdctl elect --listen` prints our leader and what it proclaims."""
    with Election(session, "election/listen").campaign("one", timeout=WAIT_S) as leadership:
        listening = elect("--listen", "election/listen")
        assert listening.stdout is not None
        assert [listening.stdout.readline() for _ in range(2)] == [f"{leadership.key}\n", "one\n"]
        leadership.proclaim("two")
        assert [listening.stdout.readline() for _ in range(2)] == [f"{leadership.key}\n", "two\n"]


def test_an_observer_sees_leaders_and_proclamations(session: Session, stranger: Session, elect: Elect) -> None:
    """From the present leader on, each leader and value comes once, etcdctl's included; a vacancy is passed over."""
    election = Election(session, "election/observe")
    first = election.campaign("one", timeout=WAIT_S)
    with Election(stranger, "election/observe").observe() as observation:
        assert next(observation).value == "one"
        first.proclaim("two")
        assert next(observation) == Leader(first.key, "two", first.token, session.lease_id)
        first.resign()
        elect("election/observe", "three")
        third = next(observation)
        assert third.value == "three"
        assert third.token > first.token


def test_closing_an_observation_wakes_its_reader(session: Session) -> None:
    """close from another thread ends the iteration, twice is fine, and no thread is left."""
    election, seen = Election(session, "election/close"), list[str]()

    def followers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if "election/close" in thread.name]

    with ThreadPoolExecutor(1) as pool, election.campaign("one", timeout=WAIT_S):
        before = followers()
        observation = election.observe()
        assert len(followers()) == len(before) + 1
        reading = pool.submit(lambda: seen.extend(leader.value for leader in observation))
        wait_until(lambda: seen == ["one"])
        observation.close()
        reading.result(WAIT_S)
        assert seen == ["one"]
        observation.close()
        assert followers() == before


def test_an_observation_that_is_dropped_ends(session: Session, name: str) -> None:
    """Leaving a `for` over it is enough: neither thread nor watch is left."""
    election = Election(session, name)
    with election.campaign("one", timeout=WAIT_S):
        for _ in range(5):
            for leader in election.observe():
                assert leader.value == "one"
                break
        wait_until(lambda: lock_threads().count(f"lock-queue {name}/") == 1)  # the candidate's


def test_an_observation_ends_with_its_client(etcd: Etcd, session: Session, name: str) -> None:
    """A wait for the next leader ends in EtcdUnavailable when the client is closed, and after that."""
    with Election(session, name).campaign("one", timeout=WAIT_S), connect(etcd.endpoint) as client:
        with Session(client) as other:
            observation = Election(other, name).observe()
        assert next(observation).value == "one"
        waiting = in_thread(next, observation)
        client.close()
        with pytest.raises(EtcdUnavailable, match="closed"):
            waiting.result(WAIT_S)
        with pytest.raises(EtcdUnavailable, match="closed"):
            next(observation)
        observation.close()


def test_an_observer_outlives_a_restart_of_etcd(fresh_etcd: Etcd) -> None:
    """While etcd is unavailable the observer waits; when it is back it sees the next leader."""
    with connect(fresh_etcd.endpoint) as client, Session(client, ttl=30) as session:
        election = Election(session, "election/restart")
        with election.observe() as observation:
            with election.campaign("before", timeout=WAIT_S):
                assert next(observation).value == "before"
                fresh_etcd.stop()
                fresh_etcd.start()
            with election.campaign("after", timeout=WAIT_S):
                assert next(observation).value == "after"


def test_observing_an_unavailable_etcd_fails_at_once(far_session: Session, proxy: Proxy, name: str) -> None:
    """observe raises EtcdUnavailable instead of waiting in silence for an etcd that was never there."""
    proxy.refuse()
    with pytest.raises(EtcdUnavailable):
        Election(far_session, name).observe()
    proxy.start()
