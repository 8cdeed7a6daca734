"""filelock's FileLock, as its docstrings say. It locks a file, so there is no server: the address is a directory."""

# mypy: ignore-errors
# ruff: noqa: D101

from filelock import FileLock, Timeout
from harness import LockAdapter, serve


class FileLockAdapter(LockAdapter):
    distribution = "filelock"

    def __init__(self, address):
        self.directory = address

    def lock(self, name, timeout):
        return FileLock(f"{self.directory}/{name}.lock", timeout=-1 if timeout is None else timeout)

    def acquire(self, name, ttl, timeout):
        lock = self.lock(name, timeout)
        try:
            lock.acquire()
        except Timeout:
            return None
        return lock

    def release(self, lock):
        lock.release()

    def held(self, lock):
        return lock.is_locked

    def block(self, name, ttl, timeout, body):
        with self.lock(name, timeout):
            body()


serve(FileLockAdapter)
