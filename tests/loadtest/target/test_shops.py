"""The instances as the rush sees them over HTTP."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator

import pytest

from loadtest.stack.ports import free_port
from loadtest.stack.stack import Stack
from loadtest.target import shops
from loadtest.target.shops import SaleError, Shops, hosts_of, in_progress
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


@pytest.fixture
def click(urls: list[str]) -> Iterator[None]:
    """A purchase that takes a while, at the second shop."""
    request = urllib.request.Request(f"{urls[1]}/stock/reduce?guard=none&hold_ms=1500", method="POST")
    buyer = threading.Thread(target=lambda: urllib.request.urlopen(request, timeout=30).close())
    buyer.start()
    wait_until(lambda: in_progress(urls[1]))
    yield
    buyer.join()


@pytest.mark.usefixtures("click")
def test_purchases_in_progress_are_waited_for(urls: list[str]) -> None:
    """The caller is told how many there are, and afterwards there are none."""
    told: list[int] = []
    Shops(urls).wait_until_idle(told.append)
    assert set(told) == {1}
    assert in_progress(urls[1]) == 0


@pytest.mark.usefixtures("click")
def test_the_wait_has_an_end(urls: list[str]) -> None:
    """It names the instance that is busy still, with what is in progress there, and what to do."""
    with pytest.raises(SaleError, match=rf"ended for 0 s at {urls[1]} \(1\): wait until they are over, or restart"):
        Shops(urls).wait_until_idle(lambda _: None, timeout=0)


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
