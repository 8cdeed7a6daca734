"""Two counters in Redis: one that believes what it is told, and one that refuses tokens that were overtaken.

A worker increments both under the lock. It does not call ``ensure()`` between reading and writing. That would make the
gap smaller, and no pause is too short to fit into a smaller gap.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import NamedTuple

import redis

from lock import Client, LockLost, LockTimeout, Mutex, Session

THINK_S = 0.02  # between reading and writing: where most pauses hit
TTL_S = 2

_READ = """
    -- KEYS fence, fenced, plain; ARGV token. Returns both values, and shuts out lower tokens; nil to one of those.
    if ARGV[1] < (redis.call('GET', KEYS[1]) or '') then return nil end
    redis.call('SET', KEYS[1], ARGV[1])
    return {redis.call('GET', KEYS[2]) or '0', redis.call('GET', KEYS[3]) or '0'}
"""
_WRITE = """
    -- KEYS fence, fenced; ARGV token, value. Returns whether it was written: only for the token that has read last.
    if ARGV[1] ~= redis.call('GET', KEYS[1]) then return 0 end
    redis.call('SET', KEYS[2], ARGV[2])
    return 1
"""


class Values(NamedTuple):
    """What the counters show, or how many increments were acknowledged."""

    fenced: int
    plain: int


class Counters:
    """Read and written under a lock, with its token; every increment reads both and writes both."""

    def __init__(self, url: str, name: str) -> None:
        self._redis = redis.Redis.from_url(url, decode_responses=True)
        self._fence, self._fenced, self._plain = (f"{{{name}}}:{part}" for part in ("fence", "fenced", "plain"))
        self._read, self._write = self._redis.register_script(_READ), self._redis.register_script(_WRITE)

    def read(self, token: int) -> Values | None:
        """Both values, or None for a token that was overtaken."""
        found = self._read([self._fence, self._fenced, self._plain], [f"{token:020}"])
        return None if found is None else Values(*map(int, found))

    def write(self, token: int, values: Values) -> Values:
        """Write both; which of the two writes were accepted, 1 or 0 each."""
        fenced = self._write([self._fence, self._fenced], [f"{token:020}", values.fenced])
        self._redis.set(self._plain, values.plain)
        return Values(int(fenced), 1)

    def show(self) -> Values:
        """Both values, asked without a lock."""
        return Values(*(int(value or 0) for value in self._redis.mget(self._fenced, self._plain)))

    def close(self) -> None:
        """Hang up, and forget the counters."""
        self._redis.delete(self._fence, self._fenced, self._plain)
        self._redis.close()


def work(client: Client, redis_url: str, name: str, stopping: threading.Event) -> Values:
    """Increment both again and again, with a session after the other; how many increments were acknowledged."""
    done, counters = Values(0, 0), Counters(redis_url, name)
    while not stopping.is_set():
        with Session(client, ttl=TTL_S) as session:
            while not (stopping.is_set() or session.lost.is_set()):
                with contextlib.suppress(LockTimeout, LockLost), Mutex(session, name).acquire(timeout=5) as hold:
                    done = _increment(counters, hold.token, done)
    return done


def _increment(counters: Counters, token: int, done: Values) -> Values:
    found = counters.read(token)
    if found is None:
        return done
    time.sleep(THINK_S)
    accepted = counters.write(token, Values(found.fenced + 1, found.plain + 1))
    return Values(done.fenced + accepted.fenced, done.plain + accepted.plain)
