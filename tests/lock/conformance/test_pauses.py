"""Conformance, case o: a holder that is paused past its lease goes on writing, and only the fence stops it.

With the scripts of docs/lock-recipes.md. After Jepsen's test of etcd's locks (jepsen.io/analyses/etcd-3.4.3).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from loadtest.stack.servers import Etcd, Redis
from lock import Client, ReadWriteLock, Session
from tests.support.lock import ROOT, WAIT_S, Script, keys
from tests.support.waiting import freeze, wait_until

PAGE = (ROOT / "docs/lock-recipes.md").read_text(encoding="utf-8")
READ, WRITE = (re.search(rf'^{name} = """(.*?)"""', PAGE, re.MULTILINE | re.DOTALL)[1] for name in ("READ", "WRITE"))  # type: ignore[index]
TTL_S = 2
HOLDER = """
hold = getattr(ReadWriteLock(session, mutex.name), {!r}).acquire(timeout=20)
say(hold.token)
hear()
say("woke up")
hear()
"""


class Pair:
    """Two values that belong together, in Redis: once fenced, and once in two plain keys."""

    def __init__(self, url: str) -> None:
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self._read, self._write = self.redis.register_script(READ), self.redis.register_script(WRITE)
        self._keys = [f"{{pause}}:{part}" for part in ("fence", "mark", "net", "gross")]

    def read(self, token: int) -> Any:
        """Both fenced values, or None to a reader that was overtaken."""
        return self._read(self._keys, [f"{token:020}"])

    def write(self, token: int, *values: str) -> bool:
        """Both fenced values; whether the token was good."""
        return bool(self._write(self._keys, [f"{token:020}", *values]))

    def plain(self) -> list[Any]:
        return list(self.redis.mget("{pause}:a", "{pause}:b"))


@pytest.fixture
def pair(redis_server: Redis) -> Iterator[Pair]:
    """The pair, with 1 everywhere."""
    pair = Pair(redis_server.url)
    pair.redis.flushdb()
    assert pair.write(0, "1", "1")
    pair.redis.mset({"{pause}:a": "1", "{pause}:b": "1"})
    yield pair
    pair.redis.flushdb()
    pair.redis.close()


def test_o_paused_writers_and_readers(etcd: Etcd, client: Client, session: Session, pair: Pair, name: str) -> None:
    """Writer and reader freeze halfway until their leases are over: the plain pair is torn, the fenced one never."""
    written, read = ReadWriteLock(session, f"{name}/written"), ReadWriteLock(session, f"{name}/read")
    with (
        Script(etcd.endpoint, f"{name}/written", HOLDER.format("write"), ttl=TTL_S) as writer,
        Script(etcd.endpoint, f"{name}/read", HOLDER.format("read"), ttl=TTL_S) as reader,
    ):
        late_writer, late_reader = int(writer.says()), int(reader.says())
        pair.redis.set("{pause}:a", "2")  # the half that the writer has done when it freezes
        freeze(writer.process)
        freeze(reader.process)
        with written.read.acquire(timeout=WAIT_S) as hold:
            assert hold.token > late_writer
            assert pair.plain() == ["2", "1"]
            assert pair.read(hold.token) == ["1", "1"]
            writer.process.send_signal(signal.SIGCONT)
            writer.tell()
            assert writer.says() == "woke up"
            assert not pair.write(late_writer, "2", "2")  # what it goes on with, while the reader still reads
            assert pair.read(hold.token) == ["1", "1"]
        with read.write.acquire(timeout=WAIT_S) as hold:
            assert pair.write(hold.token, "3", "3")
            reader.process.send_signal(signal.SIGCONT)
            assert pair.read(late_reader) is None
            assert pair.read(late_writer) is None
            assert pair.write(hold.token, "4", "4")  # the refused reads have disturbed nothing
    wait_until(lambda: keys(client, name) == [])
