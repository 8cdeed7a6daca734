"""filelock's FileLock, as its documentation says. It locks a file, so there is no server: the address is a directory.

https://py-filelock.readthedocs.io/en/latest/ (timeouts and non-blocking), https://pypi.org/project/filelock/4.3.1/
"""

from filelock import FileLock, Timeout
from harness import LockAdapter, serve


class FileLockAdapter(LockAdapter):
    packages = ("filelock",)

    def __init__(self, address):
        self.directory = address

    def lock(self, name, timeout=None):
        return FileLock(f"{self.directory}/{name}.lock", timeout=-1 if timeout is None else timeout)

    def acquire(self, name, ttl, timeout):
        return self.taken(self.lock(name, timeout))

    def attempt(self, name, ttl):
        return self.taken(self.lock(name), blocking=False)

    def taken(self, lock, **options):
        try:
            lock.acquire(**options)
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
