"""Redis with deadlines, and without a second try of anything that may have happened."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import redis

from app.sales.redis_client import Forbidden, ForbiddenHalfway, NotSent, Refused, connect, warm_up
from loadtest.stack.ports import free_port
from loadtest.stack.servers import Redis
from tests.support.overtaking import answer_lost


def test_a_write_whose_answer_is_lost_is_not_repeated(redis_server: Redis) -> None:
    """An INCR whose answer is lost fails, and was executed once."""
    with connect(redis_server.url, connections=2) as client:
        client.delete("counted")
        with answer_lost(b"INCR"), pytest.raises(redis.ConnectionError) as caught:
            client.incr("counted")
        assert not isinstance(caught.value, NotSent)
        assert client.get("counted") == "1"


def test_a_lost_exec_is_no_watch_error(redis_server: Redis) -> None:
    """A transaction whose answer is lost is not reported as overtaken by others, which would invite a second try."""
    with connect(redis_server.url, connections=2) as client:
        client.delete("counted")
        with client.pipeline() as pipe:
            pipe.watch("counted")
            pipe.multi()
            pipe.incr("counted")
            with answer_lost(b"EXEC"), pytest.raises(redis.ConnectionError):
                pipe.execute()
        assert client.get("counted") == "1"


def test_no_connection_means_not_sent() -> None:
    """Where nobody listens, the error says that nothing was sent."""
    with connect(f"redis://127.0.0.1:{free_port()}/0", connections=1) as client, pytest.raises(NotSent):
        client.incr("counted")


def test_a_connection_that_nobody_accepts_means_not_sent() -> None:
    """Where the way to Redis swallows everything, as a firewall does, the error says that nothing was sent."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        with suppress(TimeoutError):
            while True:
                waiting.enter_context(socket.create_connection(full.getsockname(), timeout=0.2))
        url = f"redis://127.0.0.1:{full.getsockname()[1]}/0"
        with connect(url, connections=1, timeout=0.2) as client, pytest.raises(NotSent):
            client.incr("counted")


def test_no_free_connection_means_not_sent(redis_server: Redis) -> None:
    """Where all connections are in use for as long as anybody waits, the error says that nothing was sent."""
    with connect(redis_server.url, connections=1, timeout=0.5) as client:
        pool = client.connection_pool
        in_use = pool.get_connection()
        try:
            with pytest.raises(NotSent):
                client.incr("counted")
        finally:
            pool.release(in_use)


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
        ("NOREPLICAS Not enough good replicas to write.", "Not enough good replicas to write."),
        ("MASTERDOWN Link with MASTER is down.", "Link with MASTER is down."),
        ("MISCONF The disk is full. script: 0, on @user_script:1.", "The disk is full."),
    ],
)
def test_a_refusal_is_known_in_all_its_forms(redis_server: Redis, answer: str, said: str) -> None:
    """What a command, a transaction, and a script of Redis 6 or 7 say of a refused write becomes the same error."""
    with connect(redis_server.url, connections=1) as client, pytest.raises(Refused, match=f"^Redis refused: {said}$"):
        client.eval("return redis.error_reply(ARGV[1])", 0, answer)


def test_a_wrong_password_is_said_to_be_one(redis_server: Redis) -> None:
    """The error of a refused login says where user and password are set."""
    with (
        connect(f"redis://shop:wrong@127.0.0.1:{redis_server.port}/0", connections=1) as client,
        pytest.raises(Forbidden, match=r"invalid username-password pair.*: FLASHSALE_REDIS_URL has to name a user"),
    ):
        client.incr("counted")


@pytest.mark.parametrize(
    "answer",
    [
        "ERR Error running script (call to f_0): @user_script:1: The user executing the script can't run this command",
        "ERR The user executing the script can't run this command script: 0, on @user_script:1.",
        "ERR ACL failure in script: The user executing the script can't run this command script: 0, on @user_script:1.",
    ],
)
def test_a_script_stopped_halfway_is_known_in_all_its_forms(redis_server: Redis, answer: str) -> None:
    """What any Redis says of a script that may not do one of its writes becomes the error that leaves it in doubt."""
    with (
        connect(redis_server.url, connections=1) as client,
        pytest.raises(ForbiddenHalfway, match="can't run this command: FLASHSALE_REDIS_URL has to name a user"),
    ):
        client.eval("return redis.error_reply(ARGV[1])", 0, answer)


def test_a_wrong_command_is_no_refusal(redis_server: Redis) -> None:
    """An error that would come again stays what it is."""
    with connect(redis_server.url, connections=1) as client:
        client.set("text", "OOM READONLY BUSY")
        with pytest.raises(redis.ResponseError) as caught:
            client.incr("text")
    assert not isinstance(caught.value, Refused)
