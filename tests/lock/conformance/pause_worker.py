"""A process that increments the two counters under the lock again and again, until its standard input ends.

Then it prints, as JSON, how many increments of each were acknowledged to it.

It does not call ``ensure()`` between reading and writing. That would make the gap smaller, and no pause is too short to
fit into a smaller gap.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time

from lock import Client, LockLost, LockTimeout, Mutex, Session, connect
from tests.lock.conformance.counters import Counters, Values
from tests.support.lock import in_turn

THINK_S = 0.02  # between reading and writing: where most pauses hit
TTL_S = 2


def main(endpoint: str, redis_url: str, name: str) -> None:
    """Work until told to stop."""
    stopping = threading.Event()
    threading.Thread(target=in_turn(sys.stdin.read, stopping.set), daemon=True).start()
    acknowledged = Values(0, 0)
    counters = Counters(redis_url, name)
    with connect(endpoint) as client:
        while not stopping.is_set():
            acknowledged = _work(client, counters, name, stopping, acknowledged)
    print(json.dumps(acknowledged))


def _work(client: Client, counters: Counters, name: str, stopping: threading.Event, done: Values) -> Values:
    """With one session, until it is lost."""
    with Session(client, ttl=TTL_S) as session:
        mutex = Mutex(session, name)
        while not (stopping.is_set() or session.lost.is_set()):
            with contextlib.suppress(LockTimeout, LockLost), mutex.acquire(timeout=5) as hold:
                done = _increment(counters, hold.token, done)
    return done


def _increment(counters: Counters, token: int, done: Values) -> Values:
    found = counters.read(token)
    if found is None:
        return done
    time.sleep(THINK_S)
    accepted = counters.write(token, Values(found.fenced + 1, found.plain + 1))
    return Values(done.fenced + accepted.fenced, done.plain + accepted.plain)


if __name__ == "__main__":
    main(*sys.argv[1:])
