"""Two values that belong together, in Redis: fenced by the scripts of docs/lock-recipes.md, and again in plain keys.

A worker increments them under the lock. It does not call ``ensure()`` between reading and writing. That would make the
gap smaller, and no pause is too short to fit into a smaller gap.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time

import redis

from lock import Client, LockLost, LockTimeout, Mutex, Session
from tests.support.lock import ROOT

PAGE = (ROOT / "docs/lock-recipes.md").read_text(encoding="utf-8")
READ, WRITE = (re.search(rf'^{name} = """(.*?)"""', PAGE, re.MULTILINE | re.DOTALL)[1] for name in ("READ", "WRITE"))  # type: ignore[index]
THINK_S = 0.02  # between reading and writing: where most pauses hit
TTL_S = 2


class Pair:
    """The values, 1 each after `reset`."""

    def __init__(self, url: str) -> None:
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self._read, self._write = self.redis.register_script(READ), self.redis.register_script(WRITE)
        self._keys = [f"{{pause}}:{part}" for part in ("fence", "mark", "net", "gross")]

    def reset(self) -> None:
        """1 everywhere."""
        self.redis.flushdb()
        assert self.write(0, 1, 1)
        self.write_plain(a=1, b=1)

    def read(self, token: int) -> list[int] | None:
        """Both fenced values, or None to a reader that was overtaken."""
        found = self._read(self._keys, [f"{token:020}"])
        return None if found is None else list(map(int, found))

    def write(self, token: int, *values: int) -> bool:
        """Both fenced values; whether the token was good."""
        return bool(self._write(self._keys, [f"{token:020}", *values]))

    def plain(self) -> list[int]:
        """Both plain values."""
        return [int(value) for value in self.redis.mget("{pause}:a", "{pause}:b") if value is not None]

    def write_plain(self, **values: int) -> None:
        """One or both of them."""
        self.redis.mset({f"{{pause}}:{name}": value for name, value in values.items()})


def work(client: Client, redis_url: str, name: str, stopping: threading.Event) -> tuple[int, int]:
    """Increment them with one session after the other; how many increments were acknowledged, fenced and plain."""
    done, pair = [0, 0], Pair(redis_url)
    while not stopping.is_set():
        with Session(client, ttl=TTL_S) as session:
            while not (stopping.is_set() or session.lost.is_set()):
                with contextlib.suppress(LockTimeout, LockLost), Mutex(session, name).acquire(timeout=5) as hold:
                    _increment(pair, hold.token, done)
    return done[0], done[1]


def _increment(pair: Pair, token: int, done: list[int]) -> None:
    found, plain = pair.read(token), pair.plain()
    if found is None:
        return
    time.sleep(THINK_S)
    done[0] += pair.write(token, found[0] + 1, found[1] + 1)
    pair.write_plain(a=plain[0] + 1, b=plain[1] + 1)
    done[1] += 1
