"""PostgreSQL's advisory locks of a session, by psycopg: a connection for each hold, `lock_timeout` for a timeout."""

# mypy: ignore-errors
# ruff: noqa: D101

import psycopg
from harness import LockAdapter, serve

LOCK = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
TRY = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
UNLOCK = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"


class PostgreSQL(LockAdapter):
    distribution = "psycopg"

    def __init__(self, address):
        host, port = address.split(":")
        self.address, self.idle = {"host": host, "port": port, "user": "postgres", "dbname": "postgres"}, []

    def acquire(self, name, ttl, timeout):
        connection = self.idle.pop() if self.idle else psycopg.connect(**self.address, autocommit=True)
        if timeout == 0:
            acquired = connection.execute(TRY, [name]).fetchone()[0]
            return (connection, name) if acquired else None
        connection.execute(f"SET lock_timeout = '{timeout or 0}s'")
        try:
            connection.execute(LOCK, [name])
        except psycopg.errors.LockNotAvailable:
            connection.close()
            return None
        return connection, name

    def release(self, hold):
        connection, name = hold
        released = connection.execute(UNLOCK, [name]).fetchone()[0]
        self.idle.append(connection)
        return released

    def held(self, hold):
        try:
            return hold[0].execute(HELD).fetchone()[0] > 0
        except psycopg.OperationalError:  # the lock went with the connection
            return False


serve(PostgreSQL)
