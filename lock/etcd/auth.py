"""A user's token, which etcd hands out against the password and forgets after a while or when it restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lock.runtime.clock import now


class Login:
    """One token for all threads, got when it is first needed and after each `forget`; None while there is none."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password
        self.known: str | None = None
        self._lock = threading.Lock()

    def token(self, authenticate: Callable[[float], str], deadline: float) -> str:
        """The token; `authenticate` asks etcd for one within that many seconds. TimeoutError at the deadline.

        One thread asks for all, because etcd makes checking a password expensive on purpose.
        """
        if not self._lock.acquire(timeout=max(deadline - now(), 0.0)):
            raise TimeoutError("logging in took too long")
        try:
            token = self.known
            if token is None:
                token = self.known = authenticate(max(deadline - now(), 0.0))
            return token
        finally:
            self._lock.release()

    def forget(self, token: str | None = None) -> None:
        """`token` is not good any more, or none is; it stays if another thread has got a new one already."""
        if token is None or self.known == token:
            self.known = None
