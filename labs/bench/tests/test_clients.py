"""The buyers of the benchmark: each clicks once and has an answer, however the server behaves."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from app.contract.outcomes import Outcome
from labs.bench import clients as clients_module
from labs.bench.clients import BuyerConnection, Click, ClientPool, Unanswered
from tests.support.serving import serving
from tests.support.waiting import wait_until

SOLD = b'{"outcome":"sold","order":"o","instance":"a","waited_ms":1,"held_ms":2}'


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that answers each request as told."""
    with serving(lambda connection, _: answer(connection)) as tcp:
        yield f"http://{tcp.endpoint}"


def http(body: bytes, *, head: str = "") -> bytes:
    """An answer as it goes over the wire."""
    return f"HTTP/1.1 200 OK\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def clicks(count: int) -> list[Click]:
    """One click of each buyer."""
    return [Click(str(number), "/stock/reduce") for number in range(count)]


def sell(connection: socket.socket) -> None:
    connection.sendall(http(SOLD))


def greeting(buyers: int, then: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    """Answers the greetings of so many buyers, and does `then` with their clicks."""
    greeted = threading.Semaphore(buyers)

    def answer(connection: socket.socket) -> None:
        if greeted.acquire(blocking=False):
            connection.sendall(http(b"{}"))
        else:
            then(connection)

    return answer


def hang_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("respond", "told"), [(sell, (Outcome.SOLD, 2, False)), (hang_up, (Outcome.ERROR, None, True))]
)
def test_every_buyer_clicks_once_and_has_an_answer(
    respond: Callable[[socket.socket], None], told: tuple[Outcome, int | None, bool]
) -> None:
    """As many answers as buyers, and each purchase whose connection breaks is in doubt."""
    with server(greeting(10, respond)) as url, ClientPool([url]) as clients:
        clients.connect(10)
        answers = clients.burst(clicks(10))
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(10)))
    assert {(answer.outcome, answer.held_ms, answer.in_doubt) for answer in answers} == {told}
    assert all(answer.answered_ms >= answer.sent_ms for answer in answers)


def test_an_answer_may_come_in_pieces() -> None:
    """The wait ends with the last byte of the body, and not with the head."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ends = []
    with ours, theirs:
        connection = BuyerConnection("http://shop", "shop", ours)
        connection.send(b"click", "buyer", at=0.0)
        for piece in (http(SOLD)[:20], http(SOLD)[20:60], http(SOLD)[60:]):
            theirs.sendall(piece)
            ends.append(connection.read())
    assert ends == [False, False, True]
    assert connection.answer(1.0).held_ms == 2


def test_a_connection_that_closes_after_its_answer_is_not_a_second_answer() -> None:
    """A server hangs up on idle connections while others still wait: each buyer is counted once, the last one too."""
    early, last = threading.Semaphore(9), threading.Event()

    def last_one_late(connection: socket.socket) -> None:
        if early.acquire(blocking=False):
            connection.sendall(http(SOLD))
            connection.shutdown(socket.SHUT_RDWR)
        else:
            last.wait(20)
            connection.sendall(http(SOLD))

    with (
        server(greeting(10, last_one_late)) as url,
        ClientPool([url]) as clients,
        ThreadPoolExecutor(1) as thread,
    ):
        clients.connect(10)
        burst = thread.submit(clients.burst, clicks(10))
        wait_until(lambda: sum(not connection.open for connection in clients._connections) == 9)
        last.set()
        answers = burst.result(20)
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(10)))
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}


def test_silence_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is an error after the patience, and not a hang."""
    monkeypatch.setattr(clients_module, "PATIENCE_S", 0.2)
    with (
        server(lambda connection: None) as url,
        ClientPool([url]) as clients,
        pytest.raises(Unanswered, match="3 buyers"),
    ):
        clients.connect(3)


def test_an_open_load_does_not_wait_for_answers() -> None:
    """All clicks are made at their time while none is answered; each is measured from when it was due."""
    all_here = threading.Barrier(20)

    def late(connection: socket.socket) -> None:
        all_here.wait(20)
        connection.sendall(http(SOLD))

    with server(late) as url, ClientPool([url]) as clients:
        answers = clients.stream(clicks(20), rate=200)
    assert len(answers) == 20
    sent = sorted(answer.sent_ms for answer in answers)
    assert [round((at - sent[0]) / 5) for at in sent] == list(range(20))


def test_an_open_load_connects_anew_where_the_server_closes() -> None:
    """A connection that the server will not keep is not used again."""
    closing = http(SOLD, head="Connection: close\r\n")
    with server(lambda connection: connection.sendall(closing)) as url, ClientPool([url]) as clients:
        answers = clients.stream(clicks(20), rate=400)
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}
