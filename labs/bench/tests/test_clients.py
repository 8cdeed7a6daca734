"""The buyers of the benchmark: each clicks once and has an answer, however the server behaves."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from app.contract.outcomes import Outcome
from labs.bench import clients as clients_module
from labs.bench.clients import Click, ClientPool, Unanswered
from tests.support.serving import serving

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
