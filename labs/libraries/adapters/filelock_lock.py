"""filelock's FileLock, as its documentation says. It locks a file, so there is no server: the address is a directory.

https://py-filelock.readthedocs.io/en/latest/ (timeouts and non-blocking), https://pypi.org/project/filelock/4.3.1/
"""

from contextlib import suppress

from filelock import FileLock, Timeout
from harness import LockAdapter, serve


class FileLockAdapter(LockAdapter):
    packages = ("filelock",)

    def __init__(self, address):
        self.directory = address

    def lock(self, name, ttl):
        return FileLock(f"{self.directory}/{name}.lock")

    def acquire(self, name, ttl, timeout):
        with suppress(Timeout):
            return super().acquire(name, ttl, -1 if timeout is None else timeout)

    def attempt(self, name, ttl):
        with suppress(Timeout):
            return super().attempt(name, ttl)

    def held(self, lock):
        return lock.is_locked

    def block(self, name, ttl, timeout, body):
        with self.lock(name, ttl).acquire(timeout=timeout):
            body()


serve(FileLockAdapter)
