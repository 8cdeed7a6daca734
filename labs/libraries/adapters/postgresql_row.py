"""A row that PostgreSQL locks until the transaction ends, by psycopg; Django's `select_for_update()` does the same.

https://www.postgresql.org/docs/15/sql-select.html#SQL-FOR-UPDATE-SHARE, .../runtime-config-client.html,
https://www.psycopg.org/psycopg3/docs/basic/transactions.html,
https://docs.djangoproject.com/en/5.2/ref/models/querysets/#select-for-update
"""

from contextlib import contextmanager

import postgresql_advisory
import psycopg

INSERT = "INSERT INTO locks VALUES (%s) ON CONFLICT DO NOTHING"
SELECT = "SELECT name FROM locks WHERE name = %s FOR UPDATE"


class Adapter(postgresql_advisory.Adapter):
    gives_up = psycopg.errors.LockNotAvailable

    @contextmanager
    def section(self, name, ttl, timeout, wait=""):
        connection = self.connection(timeout)
        connection.execute(INSERT, [name])
        with connection.transaction():
            connection.execute(SELECT + wait, [name])
            yield connection
        self.idle.append(connection)

    def acquire(self, name, ttl, timeout, wait=""):
        section = self.section(name, ttl, timeout, wait)
        return section.__enter__(), section

    def attempt(self, name, ttl):
        return self.acquire(name, ttl, None, " NOWAIT")

    def release(self, hold):
        hold[1].__exit__(None, None, None)

    def held(self, hold):
        return super().held(hold, "SELECT true")  # as any write of the same transaction would tell
