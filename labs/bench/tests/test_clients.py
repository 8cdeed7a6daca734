"""The buyers of the benchmark: each clicks once and has an answer, however the server behaves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

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
