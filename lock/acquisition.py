"""The way from nothing to a hold.

Error handling: whatever ends it early (timeout, cancellation, KeyboardInterrupt, a lost session), the key that queued
is deleted, by the session's janitor where etcd does not answer. A write whose answer was lost is repeated under the
same key.
"""

from __future__ import annotations

import logging
import math

from lock.clock import now
from lock.contender import describe
from lock.errors import EtcdError, EtcdUnavailable, LockTimeout
from lock.hold import Hold
from lock.session import Session

logger = logging.getLogger(__name__)

_FAREWELL_S = 0.05  # what a wait that has timed out may still take to clean up and to learn who holds the lock
_RETRY_S = 0.1
_GLANCE_S = 1.0  # how often a waiting thread looks whether an audit is due


class Acquisition:
    """One way from nothing to a hold; whichever way it ends, no key is left that nobody looks after."""

    def __init__(self, session: Session, name: str, prefix: str, timeout: float | None) -> None:
        self._session = session
        self._client = session.client
        self._name = name
        self._prefix = prefix
        self._started = now()
        self._deadline = math.inf if timeout is None else self._started + timeout
        self._ticket = session.new_ticket(prefix)
        self._queue = session.enlist(prefix, self._ticket)

    def run(self) -> Hold:
        try:
            self._join_queue()
            self._await_turn()
        except BaseException:
            self._withdraw()
            raise
        return self._hold()

    def attempt(self) -> Hold | None:
        key = self._ticket.key
        try:
            kv = self._client.create_alone(self._prefix, key, self._session.identity(), self._session.lease_id)
        except BaseException:
            self._withdraw()
            raise
        if kv is None:
            self._queue.strike(self._ticket)
            return None
        self._queue.written(self._ticket, kv.create_revision)
        self._ticket.grant(kv.create_revision)
        return self._hold()

    def _left(self) -> float:
        return self._deadline - now()

    def _hold(self) -> Hold:
        assert self._ticket.token is not None
        return Hold(self._session, self._name, self._queue, self._ticket, self._ticket.token)

    def _join_queue(self) -> None:
        """Write the key, again and again while etcd does not answer and there is time."""
        who = self._session.identity()
        while not self._ticket.turn.is_set():  # it may be lost or cancelled, or its turn may come before the answer
            timeout = min(self._client.timeout, max(self._left(), _FAREWELL_S))
            try:
                kv = self._client.create(self._ticket.key, who, self._session.lease_id, timeout=timeout)
            except EtcdUnavailable as error:
                if self._left() <= _RETRY_S:
                    raise EtcdUnavailable(f"lock {self._name!r}: no place in the queue in time: {error}") from error
                self._ticket.turn.wait(_RETRY_S)
            else:
                assert kv is not None
                self._queue.written(self._ticket, kv.create_revision)
                return

    def _await_turn(self) -> None:
        turn = self._ticket.turn
        while not turn.wait(max(min(self._left(), _GLANCE_S), 0.0)):
            self._session.ensure()
            if self._left() <= 0:
                raise self._timed_out()
            self._queue.audit(timeout=min(self._client.timeout, max(self._left(), _FAREWELL_S)))
        if self._ticket.failure is not None:
            raise self._ticket.failure

    def _withdraw(self) -> None:
        """Delete the key that was or may have been written; quickly here, or else by the janitor."""
        self._queue.strike(self._ticket)
        key, written_at = self._ticket.key, self._ticket.written_at or self._ticket.token
        try:
            if self._client.delete(key, written_at, timeout=_FAREWELL_S) or written_at is not None:
                return
        except EtcdError as error:
            logger.debug("lock %s: key %s is left to the janitor: %s", self._name, key, error)
        self._session.sweep(key, written_at)

    def _timed_out(self) -> LockTimeout:
        waited = now() - self._started
        kv = self._queue.holder()
        if kv is None:
            trouble = f": {self._queue.trouble}" if self._queue.trouble else ""
            return LockTimeout(f"lock {self._name!r} not acquired within {waited:.1f} s; holder unknown{trouble}")
        holder = describe(kv, self._ttl_left(kv.lease_id))
        nested = (
            ""
            if "/" not in kv.key.removeprefix(self._prefix)
            else (f". That key belongs to a name below {self._name!r}: a name waits for all that is below it")
        )
        return LockTimeout(
            f"lock {self._name!r} not acquired within {waited:.1f} s; held by {holder}{nested}", holder=holder
        )

    def _ttl_left(self, lease_id: int) -> int | None:
        try:
            return self._client.time_to_live(lease_id, timeout=_FAREWELL_S).ttl if lease_id else None
        except EtcdError:
            return None
