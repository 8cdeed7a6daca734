"""The instances as the rush sees them over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.stack.ports import free_port
from loadtest.stack.stack import Stack
from loadtest.target import shops
from loadtest.target.names import queue_name
from loadtest.target.shops import SaleError, Shops, hosts_of, in_progress
from lock import Mutex, Session, connect
from tests.support.waiting import wait_until


@pytest.fixture
def urls(stack: Stack) -> list[str]:
    """Where the shops answer."""
    return stack.urls


def test_hosts_are_separated_by_commas() -> None:
    """Blanks and slashes at the end do not matter, and http is understood."""
    assert hosts_of("http://a:1/, http://b:2,c:3") == ["http://a:1", "http://b:2", "http://c:3"]


@pytest.mark.parametrize("text", ["", ",", " , ", "http://", "ftp://a", "http://a:b", "http://a:99999", "http://[::1"])
def test_what_is_no_list_of_addresses_is_refused(text: str) -> None:
    """One line has the text and says what to give."""
    with pytest.raises(SaleError, match=r"are no addresses of shops: give each as http://HOST:PORT, separated by"):
        hosts_of(f"http://a:1,{text}" if text.strip(" ,") else text)


def test_purchases_in_progress_are_waited_for(stack: Stack, urls: list[str]) -> None:
    """The caller is told how many there are, and afterwards there are none.

    The purchase waits for the lock, which is free once the caller was told.
    """
    told: list[int] = []

    def tell(count: int) -> None:
        told.append(count)
        if not hold.released:
            hold.release()

    with (
        connect(stack.etcd.endpoint) as client,
        Session(client, ttl=10) as session,
        ThreadPoolExecutor(1) as buyers,
    ):
        hold = Mutex(session, queue_name("demo")).acquire()
        answer = buyers.submit(Shops(urls[1:]).ask, "POST", "/stock/reduce?guard=etcd")
        wait_until(lambda: answer.done() or in_progress(urls[1]), timeout=30)
        Shops(urls).wait_until_idle(tell)
        assert answer.result()["outcome"] == "sold"
    assert set(told) == {1}
    assert in_progress(urls[1]) == 0


def test_the_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the instances that are busy still, with what is in progress there, and what to do."""
    monkeypatch.setattr(shops, "in_progress", {"a": 0, "b": 1, "c": 2}.__getitem__)
    with pytest.raises(SaleError, match=r"ended for 0 s at b \(1\) and c \(2\): wait until they are over, or restart"):
        Shops(["a", "b", "c"]).wait_until_idle(lambda _: None, timeout=0)


def test_it_is_waited_as_long_as_purchases_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long all of them take, as with a long FLASHSALE_LOCK_TIMEOUT: the wait ends when their number stays."""
    told: list[int] = []
    counts = iter([3, 2, 1, 0])
    monkeypatch.setattr(shops, "in_progress", lambda _: next(counts))
    Shops(["a"]).wait_until_idle(told.append, timeout=0)
    assert told == [3, 2, 1]


def test_an_instance_without_answer_is_named(urls: list[str]) -> None:
    """One that is not there is not idle."""
    missing = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(SaleError, match=rf"The shop at {missing} does not answer .*: start it, or leave it out"):
        Shops([*urls, missing]).wait_until_idle(lambda _: None)
