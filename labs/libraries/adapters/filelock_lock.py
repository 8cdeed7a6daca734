"""filelock's FileLock, as its documentation says. It locks a file, so there is no server: the address is a directory.

https://py-filelock.readthedocs.io/en/latest/ (timeouts and non-blocking; the version stands in requirements.txt)
"""

from filelock import FileLock, Timeout
from harness import LockAdapter


class Adapter(LockAdapter):
    packages = ("filelock",)
    gives_up = Timeout

    def __init__(self, address):
        self.directory = address

    def lock(self, name, ttl):
        return FileLock(f"{self.directory}/{name}.lock")

    def acquire(self, name, ttl, timeout):
        return super().acquire(name, ttl, -1 if timeout is None else timeout)

    def held(self, lock):
        return lock.is_locked

    def section(self, name, ttl, timeout):
        return self.lock(name, ttl).acquire(timeout=timeout)
