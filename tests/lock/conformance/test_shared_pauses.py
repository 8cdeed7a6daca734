"""Conformance, case o, for readers and writers: with the scripts of docs/lock-recipes.md."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from loadtest.stack.servers import Etcd, Redis
from lock import Client, ReadWriteLock, Session
from tests.support.lock import WAIT_S, Script, keys
from tests.support.waiting import wait_until

PAGE = (Path(__file__).parents[3] / "docs/lock-recipes.md").read_text(encoding="utf-8")
READ, WRITE = (re.search(rf'^{name} = """(.*?)"""', PAGE, re.MULTILINE | re.DOTALL)[1] for name in ("READ", "WRITE"))  # type: ignore[index]
TTL_S = 2
HOLDER = """
hold = ReadWriteLock(session, mutex.name).{}.acquire(timeout=9)
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
        """Both plain values."""
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


def test_o_no_reader_sees_what_a_paused_writer_has_half_written(
    etcd: Etcd, client: Client, session: Session, pair: Pair, name: str
) -> None:
    """A writer freezes between two writes until its lease is over: the plain pair is torn, the fenced one never."""
    code = (
        "hold = ReadWriteLock(session, NAME).write.acquire(timeout=9)\nsay(hold.token)\nhear()\nsay('woke up')\nhear()"
    )
    with Script(etcd.endpoint, name, code.replace("NAME", repr(name)), ttl=TTL_S) as writer:
        token = int(writer.says())
        pair.redis.set("{pause}:a", "2")  # the half that the writer has done when it freezes
        writer.process.send_signal(signal.SIGSTOP)
        with ReadWriteLock(session, name).read.acquire(timeout=WAIT_S) as reader:
            assert reader.token > token
            assert pair.plain() == ["2", "1"]
            assert pair.read(reader.token) == ["1", "1"]
            writer.process.send_signal(signal.SIGCONT)
            writer.tell()
            assert writer.says() == "woke up"
            assert not pair.write(token, "2", "2")  # what it goes on with, while the reader still reads
            assert pair.read(reader.token) == ["1", "1"]
        with ReadWriteLock(session, name).write.acquire(timeout=WAIT_S) as second:
            assert pair.write(second.token, "3", "3")
            assert pair.read(token) is None  # nor does it read any more
    wait_until(lambda: keys(client, name) == [])


def test_o_a_paused_reader_is_refused_and_disturbs_nobody(
    etcd: Etcd, client: Client, session: Session, pair: Pair, name: str
) -> None:
    """A reader freezes between two reads; a writer comes by: the second read is refused, so that it mixes nothing."""
    code = (
        "hold = ReadWriteLock(session, NAME).read.acquire(timeout=9)\nsay(hold.token)\nhear()\nsay('woke up')\nhear()"
    )
    with Script(etcd.endpoint, name, code.replace("NAME", repr(name)), ttl=TTL_S) as reader:
        token = int(reader.says())
        assert pair.read(token) == ["1", "1"]
        reader.process.send_signal(signal.SIGSTOP)
        with ReadWriteLock(session, name).write.acquire(timeout=WAIT_S) as writer:
            assert pair.write(writer.token, "2", "2")
            reader.process.send_signal(signal.SIGCONT)
            assert pair.read(token) is None
            assert pair.write(writer.token, "3", "3")
    wait_until(lambda: keys(client, name) == [])
