"""One session with etcd for each process, for all its threads; the next call replaces a lost one."""

import os
import threading
from concurrent.futures import Future

from lock import Session, connect

attempts: dict[int, "Future[Session]"] = {}  # by process id: a forked child opens its own
choosing = threading.Lock()


def live_session() -> Session:
    """The session of this process."""
    mine: Future[Session] = Future()
    with choosing:  # etcd is asked outside of it: all who come meanwhile share one attempt
        last = attempts.get(os.getpid())
        is_over = last is None or (last.done() and (last.exception() or last.result().lost.is_set()))
        attempt = attempts[os.getpid()] = mine if is_over else last
    if is_over:
        try:
            mine.set_result(Session(connect("127.0.0.1:2379"), ttl=10))
        except BaseException as error:
            mine.set_exception(error)
        close(last)
    return attempt.result()


def close(attempt: "Future[Session] | None") -> None:
    """Close the session of an attempt that has succeeded."""
    if attempt and not attempt.exception():
        attempt.result().close()
        attempt.result().client.close()


def close_session() -> None:
    """Free all locks of this process at once; call it when the process ends."""
    close(attempts.pop(os.getpid(), None))
