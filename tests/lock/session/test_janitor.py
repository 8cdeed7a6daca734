"""No key that was or may have been written is left: the lease is shared and lives on, so it would block all waiters."""

from __future__ import annotations

import gc
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loadtest.stack.proxy import ANSWERS, REQUESTS, Proxy
from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable, Hold, Mutex, NotHeld, ReadWriteLock, Session, SessionLost, connect
from lock.etcd.transport import Call
from lock.model import KeyValue
from lock.queue.names import LONGEST
from lock.runtime import clock
from lock.runtime.execution import BLOCKING, Execution, run_blocking
from lock.session import janitor
from lock.session.janitor import Janitor, _PendingDeletion
from tests.support.lock import WAIT_S, await_keys, keys, put
from tests.support.waiting import Patch, assert_raises, in_thread, in_turn, wait_until


@pytest.fixture
def quick(monkeypatch: Patch) -> None:
    """A janitor that looks for keys in doubt more often."""
    monkeypatch.setattr(janitor, "_LOOK_S", 0.2)


@pytest.mark.parametrize(
    "attempt", [lambda mutex: mutex.acquire(timeout=0.5), Mutex.try_acquire], ids=["acquire", "try_acquire"]
)
def test_a_key_without_acknowledgement_is_deleted(
    client: Client, far_session: Session, proxy: Proxy, name: str, attempt: Callable[[Mutex], object]
) -> None:
    """The key was written, the answer never came, and then etcd was away: it goes later, and the lease lives on."""
    proxy.stall(ANSWERS)
    attempting = in_thread(attempt, Mutex(far_session, name))
    wait_until(lambda: keys(client, name))
    proxy.stall()
    assert_raises(EtcdUnavailable, attempting.result, WAIT_S)
    assert keys(client, name)
    proxy.resume()
    await_keys(client, name, 0)
    assert not far_session.lost.is_set()


def test_a_late_write_is_deleted(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """The network delivers the request when its call is over: the key is deleted when it appears."""
    proxy.stall(REQUESTS)
    assert_raises(EtcdUnavailable, Mutex(far_session, name).acquire, timeout=0.3)
    assert not keys(client, name)
    wait_until(lambda: proxy.deliver(REQUESTS, through=f"{name}/{far_session.lease_id:x}-".encode()))
    wait_until(lambda: keys(client, name))
    proxy.reset()  # what was sent after it does not arrive
    proxy.resume()
    assert keys(client, name)
    await_keys(client, name, 0)
    assert not far_session.lost.is_set()


def test_keys_in_doubt_go_as_one(session: Session, client: Client, name: str, monkeypatch: Patch, quick: None) -> None:
    """Whenever they came, a look costs etcd one transaction."""
    groups: list[int] = []
    delete = client.requests.delete

    def counted(*keys: tuple[str, int | None]) -> Call[list[bool]]:
        groups.append(len(keys))
        return delete(*keys)

    monkeypatch.setattr(client.requests, "delete", counted)
    for number in range(5):
        session.janitor.delete_later(f"{name}/{number}")
        wait_until(partial(lambda number: len(groups) > number, number))
    wait_until(lambda: groups[-3:] == [5, 5, 5])


def test_keys_in_doubt_are_looked_for_at_their_time_and_not_for_ever(client: Client, name: str) -> None:
    """Other deletions use up none of their looks; and a key that is known to be deleted is not looked for."""
    stopped = Janitor(client)
    stopped.close()
    now = _PendingDeletion(f"{name}/now", 1)
    later = _PendingDeletion(f"{name}/later", None, due=clock.now() + 60.0, looks=1)
    stopped._pending = [now, later]
    assert stopped._due() == [now]
    stopped._delete([now])
    assert stopped._pending == [later]
    for left in ([later], []):
        stopped._pending = []
        stopped._delete([later])
        assert stopped._pending == left


def test_a_restored_key_is_deleted(client: Client, stranger: Session, name: str, monkeypatch: Patch) -> None:
    """Where the session locks and did before; what it holds, what came with its lease, and other clients' keys stay."""
    monkeypatch.setattr(janitor, "_STRAYS_S", 0.1)
    before = Session(client, ttl=60)
    left = Mutex(before, f"{name}/left").acquire(timeout=WAIT_S)
    before.orphan()
    with Session(client, lease_id=before.lease_id) as session:
        used = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(2)]
        for hold in used:
            hold.release()
        lock = ReadWriteLock(session, f"{name}/held")
        held, waiting = lock.write.acquire(timeout=WAIT_S), in_thread(lock.read.acquire)
        foreign = put(client, f"{name}/foreign/{session.lease_id:x}-1", lease_id=session.lease_id)
        session.queues.followed.pop(f"{name}/1/").close()  # as if it had been idle for long
        await_keys(client, name, 4)
        for hold in used:
            client.create(hold.key, b"", session.lease_id)
        for hold in used:
            Mutex(stranger, hold.name).acquire(timeout=WAIT_S).release()
        there = {kv.key for kv in client.get_prefix(f"{name}/").keys}
        assert {left.key, held.key, foreign.key} <= there
        assert len(there) == 4
        held.release()
        waiting.result(WAIT_S).release()
    assert_raises(SessionLost, left.release)


@pytest.mark.parametrize("unanswered", [True, False])
def test_a_release_rides_out_a_reset_connection(
    client: Client, far_session: Session, proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture, unanswered: bool
) -> None:
    """When it returns, the key is gone; that a repetition finds none to delete is not taken for a deletion by hand."""
    caplog.set_level("INFO", logger="lock.session.janitor")
    hold = Mutex(far_session, name).acquire(timeout=WAIT_S)
    proxy.stall(ANSWERS) if unanswered else proxy.refuse()
    releasing = in_thread(hold.release)
    if unanswered:
        await_keys(client, name, 0)
        proxy.reset()
    wait_until(lambda: "still to be deleted" in caplog.text)
    proxy.resume() if unanswered else proxy.start()
    releasing.result(WAIT_S)
    assert keys(client, name) == []
    assert "left to the janitor" not in caplog.text


@pytest.mark.parametrize("stalled", [REQUESTS, ANSWERS])
def test_an_attempt_rides_out_a_reset_connection(
    client: Client, far_session: Session, proxy: Proxy, name: str, monkeypatch: Patch, stalled: str
) -> None:
    """try_acquire() tries once more; a key that it has written without an answer is its own."""
    ask, attempts = far_session.client.ask, list[float]()

    async def reset_once(execution: Execution, call: Call[object], **options: Any) -> object:
        attempts.extend([clock.now()] if hasattr(call.request, "success") else [])
        if len(attempts) != 1 or not hasattr(call.request, "success"):
            return await ask(execution, call, **options)
        proxy.stall(stalled)
        writing = in_thread(run_blocking, partial(ask, execution, call, **options))
        wait_until(lambda: keys(client, name) if stalled == ANSWERS else name.encode() in proxy.held_back(REQUESTS))
        proxy.reset()
        proxy.resume()
        return writing.result(WAIT_S)

    monkeypatch.setattr(far_session.client, "ask", reset_once)
    hold = Mutex(far_session, name).try_acquire()
    assert hold is not None
    assert len(attempts) == 2 or (stalled == REQUESTS and len(attempts) == 1)  # gRPC may repeat what never arrived
    assert keys(client, name) == [hold.key]
    hold.release()


def test_a_release_without_etcd_is_made_up_for(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """release() returns when its deadline is over; the key is deleted once etcd is back, and the next one gets it."""
    hold = Mutex(far_session, name).acquire(timeout=WAIT_S)
    proxy.refuse()
    hold.release()
    assert_raises(NotHeld, hold.release)
    assert keys(client, name) == [hold.key]
    proxy.start()
    await_keys(client, name, 0)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_hold_in_doubt_is_looked_after(client: Client, session: Session, name: str, quick: None) -> None:
    """However it ends, writes of its key that arrive after it was deleted leave no key, and not only the first."""
    ends: list[Callable[[Hold], None]] = [Hold.__del__, Hold.release, lambda hold: hold._expire()]
    holds = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(3)]
    for hold, end in zip(holds, ends, strict=True):
        hold._ticket.doubt()
        end(hold)
    for _ in range(2):
        await_keys(client, name, 0)
        for hold in holds:
            put(client, hold.key, lease_id=session.lease_id)
    await_keys(client, name, 0)


def test_an_attempt_in_doubt_is_looked_after(
    client: Client, session: Session, stranger: Session, name: str, monkeypatch: Patch
) -> None:
    """It found the lock taken when it was repeated; the write that was not answered may still arrive."""
    attempted: list[str] = []
    ask = session.client.ask

    async def repeated(
        execution: Any, call: Any, *, unanswered: Callable[[], None] | None = None, **options: Any
    ) -> object:
        if unanswered is not None:
            attempted.append(call.request.success[0].request_put.key.decode())
            unanswered()
        return await ask(execution, call, unanswered=unanswered, **options)

    monkeypatch.setattr(session.client, "ask", repeated)
    with Mutex(stranger, name).acquire(timeout=WAIT_S) as hold:
        assert Mutex(session, name).try_acquire() is None
        client.create(attempted[0], b"", session.lease_id)
        wait_until(lambda: keys(client, name) == [hold.key])


def test_a_hold_may_be_collected_inside_our_own_locks(client: Client, session: Session, name: str) -> None:
    """The garbage collector runs wherever memory is allocated, also in a thread that is inside the wait queue."""
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    queue = session.queues.followed[f"{name}/"]
    circle: list[object] = [hold]
    circle.append(circle)
    del hold, circle

    def collect() -> None:
        with queue._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    in_thread(collect).result(WAIT_S)
    await_keys(client, name, 0)
    wait_until(lambda: not queue._tickets)


@contextmanager
def busy(session: Session) -> Iterator[None]:
    """Its janitor is held up: what it is asked for meanwhile goes together."""
    begun, go_on = threading.Event(), threading.Event()
    session.janitor.delete_later("janitor/none", 1, first=in_turn(begun.set, partial(go_on.wait, WAIT_S)))
    assert begun.wait(WAIT_S)
    try:
        yield
    finally:
        go_on.set()


def make_keys(client: Client, session: Session, name: str, count: int) -> list[KeyValue]:
    return [put(client, f"{name}/{number}", lease_id=session.lease_id) for number in range(count)]


def delete_all(session: Session, kvs: list[KeyValue], *, timeout: float = 60.0) -> list[Future[bool]]:
    """Deletions that a busy janitor has been asked for."""
    delete = session.janitor.delete
    deletions = [in_thread(run_blocking, delete, BLOCKING, kv.key, kv.create_revision, timeout=timeout) for kv in kvs]
    wait_until(lambda: session.janitor._inbox.qsize() == len(kvs))
    return deletions


def test_an_outage_costs_one_deadline(
    client: Client, far_session: Session, proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where etcd does not answer, the keys of a group are not tried one by one, and all who wait are told in time."""
    caplog.set_level("INFO", logger="lock.session.janitor")
    with busy(far_session):
        deletions = delete_all(far_session, make_keys(client, far_session, name, 4), timeout=1.0)
        proxy.refuse()
    assert {type(deletion.exception(WAIT_S)) for deletion in deletions} == {EtcdUnavailable}
    told = next(message for message in caplog.messages if name in message)
    assert all(f"{name}/{number}" in told for number in range(4))
    proxy.start()
    await_keys(client, name, 0)


def test_a_group_fits_into_a_request(
    counted: Client, calls: Counter[str], client: Client, session: Session, name: str
) -> None:
    """Three hundred keys with a name as long as names can be go in a few transactions, none of which is refused."""
    name = name.ljust(LONGEST, "x")
    kvs = make_keys(client, session, name, 300)
    with Session(counted) as several:
        with busy(several):
            for kv in kvs:
                several.janitor.delete_later(kv.key, kv.create_revision)
        await_keys(client, name, 0)
    assert calls["Txn"] <= 6


def test_a_deletion_ends_with_its_session(client: Client, name: str, monkeypatch: Patch) -> None:
    """A caller that waits for one is told as soon as the session is closed, and so is one that comes too late."""
    monkeypatch.setattr(janitor, "_COMPANY_S", 60.0)
    session = Session(client)
    (kv,) = make_keys(client, session, name, 1)
    waiting = in_thread(
        lambda: run_blocking(session.janitor.delete, BLOCKING, kv.key, kv.create_revision, timeout=60.0, may_wait=True)
    )
    wait_until(lambda: session.janitor._pending)
    session.close()
    assert_raises(EtcdUnavailable, waiting.result, WAIT_S, match="was closed")
    with pytest.raises(EtcdUnavailable, match="was closed"):
        run_blocking(session.janitor.delete, BLOCKING, kv.key, kv.create_revision, timeout=60.0)


class StrictEtcd(Etcd):
    """An etcd that takes one operation in a transaction."""

    def command(self) -> list[str]:
        return [*super().command(), "--max-txn-ops=1"]


def test_a_group_that_etcd_refuses_is_deleted_one_by_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the keys cannot go together, each goes by itself, at once and without a complaint."""
    caplog.set_level("INFO", logger="lock")
    with StrictEtcd(tmp_path) as etcd, connect(etcd.endpoint) as client, Session(client) as session:
        with busy(session):
            deletions = delete_all(session, make_keys(client, session, "few", 4))
        assert [deletion.result(WAIT_S) for deletion in deletions] == [True] * 4
        assert keys(client, "few") == []
    assert caplog.messages == []
