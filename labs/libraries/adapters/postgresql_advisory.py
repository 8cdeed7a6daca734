"""PostgreSQL's advisory locks by psycopg, a connection for each hold.

https://www.postgresql.org/docs/15/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS, .../runtime-config-client.html,
https://www.psycopg.org/psycopg3/docs/basic/usage.html
"""

import psycopg
from harness import LockAdapter

QUERY = "SELECT {}(hashtextextended(%s, 0))"
HELD = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"


class Adapter(LockAdapter):
    packages = ("psycopg",)

    def __init__(self, address):
        host, port = address.split(":")
        self.address, self.idle = {"host": host, "port": port, "user": "postgres", "dbname": "postgres"}, []

    def connection(self, timeout=None):
        connection = self.idle.pop() if self.idle else psycopg.connect(**self.address, autocommit=True)
        connection.execute(f"SET lock_timeout = '{timeout or 0}s'")
        return connection

    def acquire(self, name, ttl, timeout, call="pg_advisory_lock"):
        connection = self.connection(timeout)
        try:
            acquired = connection.execute(QUERY.format(call), [name]).fetchone()[0]
        except psycopg.errors.LockNotAvailable:
            acquired = False
        return connection.close() if acquired is False else (connection, name)  # pg_advisory_lock answers ""

    def attempt(self, name, ttl):
        return self.acquire(name, ttl, None, "pg_try_advisory_lock")

    def release(self, hold):
        released = hold[0].execute(QUERY.format("pg_advisory_unlock"), [hold[1]]).fetchone()[0]
        self.idle.append(hold[0])
        return released

    def held(self, hold, query=HELD):
        try:
            return hold[0].execute(query).fetchone()[0]
        except psycopg.OperationalError:  # the lock went with the connection
            return False
