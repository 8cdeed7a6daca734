"""Redis with deadlines, and without a second try of anything that may have happened."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from app.redis_client import NotSent, Refused, connect, warm_up
from loadtest.ports import free_port
from loadtest.servers import Redis
from tests.app.lossy_proxy import LossyProxy


@pytest.fixture
def lossy(redis_server: Redis) -> Iterator[LossyProxy]:
    """A way to Redis on which an answer can get lost."""
    with LossyProxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
def client(lossy: LossyProxy) -> Iterator[redis.Redis]:
    """The shop's client on that way."""
    with connect(f"redis://127.0.0.1:{lossy.port}/0", connections=2) as client:
        yield client


def test_a_write_whose_answer_is_lost_is_not_repeated(client: redis.Redis, lossy: LossyProxy) -> None:
    """An INCR whose answer is lost fails, and was executed once."""
    client.delete("counted")
    lossy.lose_answer_to(b"INCR")
    with pytest.raises(redis.ConnectionError) as caught:
        client.incr("counted")
    assert not isinstance(caught.value, NotSent)
    assert client.get("counted") == "1"


def test_a_lost_exec_is_no_watch_error(client: redis.Redis, lossy: LossyProxy) -> None:
    """A transaction whose answer is lost is not reported as overtaken by others, which would invite a second try."""
    client.delete("counted")
    with client.pipeline() as pipe:
        pipe.watch("counted")
        pipe.multi()
        pipe.incr("counted")
        lossy.lose_answer_to(b"EXEC")
        with pytest.raises(redis.ConnectionError):
            pipe.execute()
    assert client.get("counted") == "1"


def test_no_connection_means_not_sent() -> None:
    """Where nobody listens, the error says that nothing was sent."""
    with connect(f"redis://127.0.0.1:{free_port()}/0", connections=1) as client, pytest.raises(NotSent):
        client.incr("counted")


def test_a_frozen_redis_fails_at_the_deadline(tmp_path: Path) -> None:
    """A Redis that does not answer makes a command fail after its timeout, and serves again once it does."""
    with Redis(tmp_path) as server, connect(server.url, connections=1, timeout=0.3) as client:
        client.ping()
        server.pause()
        began = time.monotonic()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        assert 0.3 <= time.monotonic() - began < 3
        server.resume()
        assert client.ping()


def test_a_restarted_redis_is_used_again_at_once(tmp_path: Path) -> None:
    """Connections that broke while nobody used them are replaced without an error."""
    with Redis(tmp_path) as server, connect(server.url, connections=3) as client:
        warm_up(client)
        server.stop()
        server.start()
        assert [client.ping() for _ in range(4)] == [True] * 4


def test_warming_up_opens_every_connection(redis_server: Redis) -> None:
    """The warm-up makes as many connections as the pool has room for; one of them is there already."""
    with connect(redis_server.url, connections=7) as client:
        before = client.info("stats")["total_connections_received"]
        warm_up(client)
        assert client.info("stats")["total_connections_received"] == before + 6


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("BUSY Redis is busy running a script.", "Redis is busy running a script."),
        ("EXECABORT Transaction discarded because of: OOM no memory left.", "no memory left."),
        ("ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -READONLY No writes.", "No writes."),
        ("MISCONF The disk is full. script: 0, on @user_script:1.", "The disk is full."),
    ],
)
def test_a_refusal_is_known_in_all_its_forms(redis_server: Redis, answer: str, said: str) -> None:
    """What a command, a transaction, and a script of Redis 6 or 7 say of a refused write becomes the same error."""
    with connect(redis_server.url, connections=1) as client, pytest.raises(Refused, match=f"^Redis refused: {said}$"):
        client.eval("return redis.error_reply(ARGV[1])", 0, answer)


def test_a_wrong_command_is_no_refusal(redis_server: Redis) -> None:
    """An error that would come again stays what it is."""
    with connect(redis_server.url, connections=1) as client:
        client.set("text", "OOM READONLY BUSY")
        with pytest.raises(redis.ResponseError) as caught:
            client.incr("text")
    assert not isinstance(caught.value, Refused)
