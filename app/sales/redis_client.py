"""The client of Redis: every call has a deadline, and nothing is ever sent twice.

redis-py repeats a command whose answer was lost, ten times if ``Redis(...)`` makes the pool. It cannot know whether
the first one was executed: repeating an ``RPUSH`` or the commit of a purchase would sell an item twice. Here a lost
answer is an error, and the shop tells the buyer that the purchase is in doubt.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from hashlib import sha1
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.connection import DefaultParser
from redis.exceptions import NoScriptError
from redis.retry import Retry

LUA = Path(__file__).parent / "lua"
TIMEOUT = 2.0
CONNECT_TIMEOUT = 1.0
SHORTEST = 0.5  # minimum reply timeout, even past the deadline
REFUSAL = re.compile(
    r"(?:EXECABORT .*: )?"
    r"((?:READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|BUSY) .*?)(?: script: .*)?"
)

_deadline = ContextVar("deadline", default=math.inf)


@contextmanager
def answered_until(deadline: float) -> Iterator[None]:
    """Inside, every call waits for its reply until `deadline` (`time.monotonic`), and at least `SHORTEST`."""
    before = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(before)


class NotSent(redis.ConnectionError):
    """There was no connection to Redis, so the command was not executed."""


class Refused(redis.ResponseError):
    """Redis is read-only, full or busy, or cannot save, and has written nothing.

    A script is refused at its first write or not at all, and of a transaction either everything is executed or nothing.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self._said = said

    def __str__(self) -> str:  # not the arguments: redis-py writes the whole command of a pipeline into them
        return f"Redis refused: {self._said}"


class Parser(DefaultParser):  # type: ignore[misc, valid-type]
    """Turns refusals, also those inside a transaction or a script, into `Refused`."""

    @classmethod
    def parse_error(cls, response: str) -> Exception:
        if found := REFUSAL.fullmatch(response):
            return Refused(found[1])
        if "unauthenticated" in response:  # what Redis says of a long command before the login
            return redis.AuthenticationError(response)
        error: Exception = super().parse_error(response)
        return error


class _BoundedConnect:
    """Connects within `CONNECT_TIMEOUT` seconds, including the look-up of the name and all its addresses."""

    host: str
    socket_connect_timeout: Any

    def _connect(self) -> Any:
        # The look-up of a name that no longer exists, such as a removed container's, can take many seconds.
        connecting = _connectors.submit(super()._connect)  # type: ignore[misc]
        try:
            return connecting.result(self.socket_connect_timeout)
        except FutureTimeout:
            connecting.add_done_callback(_close_late)
            raise TimeoutError(f"{self.host} was not reached in time") from None


class RedisConnection(_BoundedConnect, redis.Connection):
    """A connection to ``redis://``."""


class SecureConnection(_BoundedConnect, redis.SSLConnection):
    """A connection to ``rediss://``; waits for a first answer.

    Before it, the server sends TLS session tickets, which the pool would take for what an earlier command has left.
    """

    def on_connect_check_health(self, check_health: bool = True) -> None:
        super().on_connect_check_health(check_health=check_health)
        self.send_command("PING")  # type: ignore[no-untyped-call]
        self.read_response()


_connectors = ThreadPoolExecutor(16, "redis-connect")


def _close_late(connecting: Future[Any]) -> None:
    if connecting.exception() is None:
        connecting.result().close()


class Pool(redis.BlockingConnectionPool):
    """A pool that tells "no connection" from "no answer"; a stale connection is replaced before anything is sent."""

    def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        """A connection that is open.

        Raises:
            AuthenticationError: Redis does not know the user.
            NotSent: Redis cannot be reached, or no connection became free in time.
        """
        try:
            connection = super().get_connection(*args, **kwargs)  # type: ignore[no-untyped-call]
        except redis.AuthenticationError:
            raise
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise NotSent(str(error)) from error
        left = _deadline.get() - time.monotonic()
        connection.update_current_socket_timeout(min(connection.socket_timeout, max(left, SHORTEST)))
        return connection


def connect(url: str, *, connections: int, timeout: float = TIMEOUT) -> redis.Redis:
    """A client of Redis; nothing is sent before its first command.

    Args:
        url: the address, see `app.config.settings.Settings.redis_url`.
        connections: most connections at once; one for each thread that uses the client.
        timeout: seconds until a command without a reply fails.
    """
    pool = Pool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=min(timeout, CONNECT_TIMEOUT),
        # No supported errors at all: redis-py would turn a lost EXEC into a WatchError, which asks for a retry.
        retry=Retry(NoBackoff(), 0, supported_errors=()),
        parser_class=Parser,
        decode_responses=True,
        # RESP 2 and no CLIENT SETINFO: a new connection is usable without a round trip.
        protocol=2,
        driver_info=None,
    )
    pool.connection_class = SecureConnection if url.startswith("rediss:") else RedisConnection
    return redis.Redis(connection_pool=pool)


def warm_up(client: redis.Redis) -> None:
    """Open all connections now, so that the first buyers of a rush do not wait for them.

    Raises:
        NotSent: Redis cannot be reached.
    """
    pool = client.connection_pool
    with ExitStack() as opened:
        for _ in range(pool.max_connections):
            opened.callback(pool.release, pool.get_connection())


class Script:
    """A Lua script: ``common.lua`` followed by the text of a file.

    Attributes:
        sha: its hash, by which EVALSHA calls it.
    """

    def __init__(self, path: Path) -> None:
        self.text = "".join(file.read_text(encoding="utf-8") for file in (LUA / "common.lua", path))
        self.sha = sha1(self.text.encode()).hexdigest()

    def run(self, client: redis.Redis, keys: Sequence[str], args: Sequence[str | int]) -> Any:
        """Run it: by its hash if Redis knows it, else by its text, and always so in a pipeline."""
        if not isinstance(client, Pipeline):
            with suppress(NoScriptError):
                return client.evalsha(self.sha, len(keys), *keys, *args)
        return client.eval(self.text, len(keys), *keys, *args)
