"""This repository's `lock`, as docs/quickstart.md uses it: one client and one session for the process."""

import threading

from harness import LockAdapter

from lock import LockLost, LockTimeout, Mutex, Session, connect


class Adapter(LockAdapter):
    gives_up = LockTimeout

    def __init__(self, address):
        self.client, self.session, self.starting = connect(address), None, threading.Lock()

    def lock(self, name, ttl):
        with self.starting:
            self.session = self.session or Session(self.client, ttl=ttl)
        return Mutex(self.session, name)

    def acquire(self, name, ttl, timeout):
        return self.lock(name, ttl).acquire(timeout=timeout)

    def attempt(self, name, ttl):
        return self.lock(name, ttl).try_acquire()

    def held(self, hold):
        try:
            hold.ensure()
        except LockLost:
            return False
        return True

    def token(self, hold):
        return hold.token

    section = acquire
