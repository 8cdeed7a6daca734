"""Redis with deadlines, and without a second try of anything that may have happened."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import redis

from app.sales.redis_client import NotSent, Refused, answered_until, connect
from loadtest.ports import free_port
from loadtest.stack.servers import Redis


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    """A client with one connection."""
    with connect(redis_server.url, connections=1, timeout=2.0) as client:
        yield client


def test_no_connection_means_not_sent(redis_server: Redis) -> None:
    """If no server listens, a firewall drops the packets, or all connections are in use, nothing was sent."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        with suppress(TimeoutError):
            while True:
                waiting.enter_context(socket.create_connection(full.getsockname(), timeout=0.2))
        unavailable = [f"redis://127.0.0.1:{port}/0" for port in (free_port(), full.getsockname()[1])]
        for url in unavailable:
            with connect(url, connections=1, timeout=0.2) as client, pytest.raises(NotSent):
                client.incr("counted")
    with connect(redis_server.url, connections=1, timeout=0.5) as client:
        in_use = client.connection_pool.get_connection()
        with pytest.raises(NotSent):
            client.incr("counted")
        client.connection_pool.release(in_use)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("BUSY Redis is busy running a script.", "BUSY Redis is busy running a script."),
        ("EXECABORT Transaction discarded because of: OOM no memory left.", "OOM no memory left."),
        ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS Not enough good replicas to write."),
        ("MASTERDOWN Link with MASTER is down.", "MASTERDOWN Link with MASTER is down."),
        ("MISCONF The disk is full. script: 0, on @user_script:1.", "MISCONF The disk is full."),
    ],
)
def test_a_refusal_is_known_in_all_its_forms(client: redis.Redis, answer: str, said: str) -> None:
    """What a command, a transaction and a script say of a refused write becomes one error."""
    with pytest.raises(Refused) as caught:
        client.eval("return redis.error_reply(ARGV[1])", 0, answer)
    assert str(caught.value) == f"Redis refused: {said}"


def test_what_is_left_of_a_purchase_bounds_each_answer(fresh_redis: Redis) -> None:
    """A frozen Redis holds a purchase up no longer than its own time, although an answer might take a minute."""
    with connect(fresh_redis.url, connections=1, timeout=60.0) as client:
        client.ping()
        fresh_redis.pause()
        try:
            with answered_until(time.monotonic()), pytest.raises(redis.TimeoutError):
                client.ping()
        finally:
            fresh_redis.resume()
        assert client.ping()
