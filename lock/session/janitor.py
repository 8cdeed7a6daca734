"""Deletes the keys that are not needed any more, and those that may still be written.

While one transaction is under way the next keys gather, and go in the next one (group commit). The key of a hold whose
successor is a thread of this process blocks no other, and waits a moment for others (as PostgreSQL's ``commit_delay``
lets commits wait).

The lease is shared and kept alive, so a forgotten key would block all behind it for as long as the session lives: of a
wait that was given up while etcd did not answer, of a write whose answer was lost, of a hold that was dropped.

An etcd that was restored from a snapshot has keys again that were deleted since. So the janitor asks now and then which
keys the lease has, and deletes those that belong to no ticket.

Error handling: what etcd did not confirm is tried again. Where it refuses a group, each key is tried by itself.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from lock.errors import EtcdError, EtcdUnavailable
from lock.etcd.client import Client
from lock.runtime.clock import now
from lock.runtime.execution import Execution
from lock.runtime.interrupts import InterruptSafeEvent

logger = logging.getLogger(__name__)

_COMPANY_S = 0.005
_GROUP = 64  # keys in one transaction; etcd takes up to 127, unless it is told otherwise
_RETRY_S = (0.05, 0.1, 0.2, 0.5)
_STRAYS_S = 5.0  # how often keys are looked for that have come back
_LOOK_S = 2.0  # how often a key is looked for that may still be written, and so how long one may block a queue
_LOOKS = 300  # ten minutes in all


@dataclass(eq=False)
class _PendingDeletion:
    key: str
    create_revision: int | None
    first: Callable[[], object] | None = None
    may_wait: bool = False
    due: float = field(default_factory=now)
    looks: int = _LOOKS
    failures: int = 0
    outcome: bool | EtcdError | None = None
    told: InterruptSafeEvent = field(default_factory=InterruptSafeEvent)

    def tell(self, outcome: bool | EtcdError) -> None:
        """The first outcome is told to the thread or task that waits for it."""
        if self.outcome is None:
            self.outcome = outcome
            self.told.set()


class Janitor:
    """Tries again and again until each key is gone, in its own thread.

    `find_strays` asks etcd for keys that were deleted, or are about to be, and are there.
    """

    def __init__(self, client: Client, find_strays: Callable[[], set[str]] = set) -> None:
        self._client = client
        self._find_strays = find_strays
        self._strays: set[str] = set()  # found the last time
        self._strays_due = now() + _STRAYS_S
        self._inbox: queue.SimpleQueue[_PendingDeletion | None] = queue.SimpleQueue()  # put is safe in __del__
        self._pending: list[_PendingDeletion] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lock-janitor", daemon=True)
        self._thread.start()

    def delete_later(
        self, key: str, create_revision: int | None = None, *, first: Callable[[], object] | None = None
    ) -> None:
        """Have `key` deleted if it was created at `create_revision`; takes no lock, for use in ``__del__``.

        None: a write of it whose answer was lost may arrive late, or two, as from an endpoint that was frozen. So it is
        looked for again and again, for ten minutes. `first` is called before, in the janitor's thread.
        """
        self._inbox.put(_PendingDeletion(key, create_revision, first))

    async def delete(
        self,
        execution: Execution,
        key: str,
        create_revision: int | None,
        *,
        timeout: float | None = None,
        may_wait: bool = False,
    ) -> bool:
        """Delete a key and wait for it, for `timeout` seconds at most: whether the key was there, or may have been.

        `timeout` is the client's if None. `may_wait`: it may take some milliseconds longer, to go with others. Raises
        EtcdError where etcd refused it, or has not confirmed it when the time is over; the janitor goes on trying.
        """
        self._client.check_process()
        patience = self._client.timeout if timeout is None else timeout
        deletion = _PendingDeletion(key, create_revision, may_wait=may_wait)
        if may_wait:
            deletion.due += _COMPANY_S
        self._inbox.put(deletion)
        if self._closed.is_set():  # perhaps the thread has not seen it
            raise _stopped(key)
        await execution.wait(deletion.told, patience)
        outcome = deletion.outcome
        if outcome is None:
            raise EtcdUnavailable(f"etcd did not confirm within {patience:g} s that {key!r} is deleted")
        if isinstance(outcome, EtcdError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Stop; what is left goes with the lease."""
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(self._client.timeout)

    def _work(self) -> None:
        while not self._closed.is_set():
            self._collect()
            if now() >= self._strays_due:
                self._look_for_strays()
            group = self._due()
            if group:
                self._delete(group)
        for deletion in self._pending:
            deletion.tell(_stopped(deletion.key))

    def _collect(self) -> None:
        """Wait until something is due, and take in whatever has come."""
        due = min((deletion.due for deletion in self._pending), default=self._strays_due)
        try:
            deletion = self._inbox.get(timeout=max(min(due, self._strays_due) - now(), 0.0))
            while True:
                if deletion is None:
                    self._closed.set()
                else:
                    self._pending.append(deletion)
                deletion = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _due(self) -> list[_PendingDeletion]:
        """Take out what goes next: what is due, the new before what is looked for again, and what waits for company."""
        moment = now()
        due = sorted((each for each in self._pending if each.due <= moment), key=lambda each: each.looks, reverse=True)
        waiting = [deletion for deletion in self._pending if deletion.due > moment and deletion.may_wait]
        group = (due + waiting)[:_GROUP] if due else []
        taken = set(group)
        self._pending = [deletion for deletion in self._pending if deletion not in taken]
        return group

    def _delete(self, group: list[_PendingDeletion]) -> None:
        in_doubt = threading.Event()  # an endpoint that did not answer may have deleted them for us
        try:
            for deletion in group:
                if deletion.first is not None:
                    deletion.first()
                    deletion.first = None
            keys = [(deletion.key, deletion.create_revision) for deletion in group]
            there = self._client.answer(self._client.requests.delete(*keys), unanswered=in_doubt.set)
        except EtcdError as error:
            self._failed(group, error)
            return
        except Exception as error:
            logger.exception("a deletion has failed")
            self._failed(group, EtcdError(f"a deletion has failed: {error!r}"))
            return
        for deletion, was_there in zip(group, there, strict=True):
            deletion.tell(was_there or in_doubt.is_set() or deletion.failures > 0)
            if deletion.create_revision is None and deletion.looks > 0:
                deletion.looks -= 1
                self._again(deletion, (now() // _LOOK_S + 1) * _LOOK_S)  # the same for all in doubt: they go together

    def _failed(self, group: list[_PendingDeletion], error: EtcdError) -> None:
        if len(group) > 1 and not isinstance(error, EtcdUnavailable):
            for deletion in group:
                self._delete([deletion])
            return
        logger.info("still to be deleted: %s: %s", ", ".join(deletion.key for deletion in group), error)
        for deletion in group:
            if not isinstance(error, EtcdUnavailable):  # or else the next attempt may come in time
                deletion.tell(error)
            self._again(deletion, now() + _RETRY_S[min(deletion.failures, len(_RETRY_S) - 1)])
            deletion.failures += 1

    def _look_for_strays(self) -> None:
        """Delete what is found twice: the first time, its deletion may have been on the way."""
        found: set[str] = set()
        try:
            found = self._find_strays() - {deletion.key for deletion in self._pending}
        except EtcdError as error:
            logger.debug("keys that have come back were not looked for: %s", error)
        except Exception:
            logger.exception("keys that have come back were not looked for")
        for key in found & self._strays:
            logger.warning("key %s was deleted and is there again, as in an etcd that was restored: it goes", key)
            self._pending.append(_PendingDeletion(key, None, looks=0))
        self._strays, self._strays_due = found, now() + _STRAYS_S

    def _again(self, deletion: _PendingDeletion, due: float) -> None:
        deletion.may_wait, deletion.due = False, due
        self._pending.append(deletion)


def _stopped(key: str) -> EtcdUnavailable:
    return EtcdUnavailable(f"the session was closed before {key!r} was deleted: it goes with the lease")
