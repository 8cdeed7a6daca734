"""An adapter whose lock is none: it says yes to everyone, and deletes nothing. `ANSWERS=no`: it cannot be asked."""

# mypy: ignore-errors

import itertools
import os

from harness import LockAdapter, NotOffered, serve


class NoLock(LockAdapter):
    def __init__(self, address):
        self.tokens = itertools.count(9, -1)

    def acquire(self, name, ttl, timeout):
        return next(self.tokens)

    def attempt(self, name, ttl):
        return next(self.tokens)

    def release(self, hold):
        pass

    def held(self, hold):
        if os.environ.get("ANSWERS") == "no":
            raise NotOffered
        return True

    def token(self, hold):
        return hold

    def block(self, name, ttl, timeout, body):
        body()


serve(NoLock)
