"""A user's token, which etcd hands out against the password and forgets after a while or when it restarts."""

import threading
from collections.abc import Callable
from concurrent.futures import Future


class Login:
    """One token for all threads, got when it is first needed and after each `forget`; `None` while there is none."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password
        self.known: str | None = None
        self._pending: Future[str] | None = None
        self._lock = threading.Lock()

    def token(self, authenticate: Callable[[Future[str]], object]) -> Future[str]:
        """The token; `authenticate` asks etcd for one, and sets the result of the future that it is given.

        It is asked once for all threads, because etcd makes checking a password expensive on purpose.
        """
        with self._lock:
            if self._pending is not None:
                return self._pending
            pending = Future[str]()
            if self.known is not None:  # another thread has got one just now
                pending.set_result(self.known)
                return pending
            self._pending = pending
        pending.add_done_callback(self._learn)
        authenticate(pending)
        return pending

    def forget(self, token: str | None = None) -> None:
        """`token` is not good any more, or none is; it stays if another thread has got a new one already."""
        if token is None or self.known == token:
            self.known = None

    def _learn(self, pending: Future[str]) -> None:
        with self._lock:
            if pending.exception() is None:
                self.known = pending.result()
            self._pending = None
