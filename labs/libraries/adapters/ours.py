"""This repository's `lock`, as docs/quickstart.md uses it: one client and one session for the process."""

import threading

from harness import LockAdapter, serve

from lock import LockLost, LockTimeout, Mutex, Session, connect


class Ours(LockAdapter):
    def __init__(self, address):
        self.client, self.session = connect(address), None
        self.starting = threading.Lock()

    def lock(self, name, ttl):
        with self.starting:
            self.session = self.session or Session(self.client, ttl=ttl)
        return Mutex(self.session, name)

    def acquire(self, name, ttl, timeout):
        try:
            return self.lock(name, ttl).acquire(timeout=timeout)
        except LockTimeout:
            return None

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

    def block(self, name, ttl, timeout, body):
        with self.lock(name, ttl).acquire(timeout=timeout):
            body()


serve(Ours)
