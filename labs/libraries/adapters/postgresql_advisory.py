"""PostgreSQL's locks by psycopg, a connection for each hold: `POSTGRESQL` says whether "advisory" or "row".

https://www.postgresql.org/docs/15/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS,
https://www.postgresql.org/docs/15/sql-select.html#SQL-FOR-UPDATE-SHARE, .../runtime-config-client.html,
https://www.psycopg.org/psycopg3/docs/basic/transactions.html, and for Django's `select_for_update()`
https://docs.djangoproject.com/en/5.2/ref/models/querysets/#select-for-update
"""

import os

import psycopg
from harness import LockAdapter, serve

ADVISORY = "SELECT {}(hashtextextended(%s, 0))"
HELD = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
INSERT = "INSERT INTO locks VALUES (%s) ON CONFLICT DO NOTHING"
SELECT = "SELECT name FROM locks WHERE name = %s FOR UPDATE"


class AdvisoryLock(LockAdapter):
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
            acquired = connection.execute(ADVISORY.format(call), [name]).fetchone()[0]
        except psycopg.errors.LockNotAvailable:
            acquired = False
        return connection.close() if acquired is False else (connection, name)  # pg_advisory_lock answers ""

    def attempt(self, name, ttl):
        return self.acquire(name, ttl, None, "pg_try_advisory_lock")

    def release(self, hold):
        released = hold[0].execute(ADVISORY.format("pg_advisory_unlock"), [hold[1]]).fetchone()[0]
        self.idle.append(hold[0])
        return released

    def held(self, hold, query=HELD):
        try:
            return hold[0].execute(query).fetchone()[0]
        except psycopg.OperationalError:  # the lock went with the connection
            return False


class RowLock(AdvisoryLock):
    def acquire(self, name, ttl, timeout, wait=""):
        connection = self.connection(timeout)
        connection.execute(INSERT, [name])
        transaction = connection.transaction()
        transaction.__enter__()
        try:
            connection.execute(SELECT + wait, [name])
        except psycopg.errors.LockNotAvailable:
            return connection.close()
        return connection, transaction

    def attempt(self, name, ttl):
        return self.acquire(name, ttl, None, " NOWAIT")

    def release(self, hold):
        hold[1].__exit__(None, None, None)
        self.idle.append(hold[0])

    def held(self, hold):
        return super().held(hold, "SELECT true")  # as any write of the same transaction would tell

    def block(self, name, ttl, timeout, body):
        connection = self.connection(timeout)
        with connection.transaction():
            connection.execute(SELECT, [name])
            body()


serve({"advisory": AdvisoryLock, "row": RowLock}[os.environ["POSTGRESQL"]])
