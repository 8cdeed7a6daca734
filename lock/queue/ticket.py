"""One place in a queue."""

from __future__ import annotations

from lock.errors import LockError
from lock.queue.admission import EXCLUSIVE, Admission
from lock.runtime.interrupts import InterruptSafeEvent, uninterrupted
from lock.runtime.lost_event import CallbackThread, LostEvent


class Ticket(LostEvent):
    """One key in a queue, from before it is written until it is deleted; `lost` when the key has to be taken for gone.

    Attributes:
        key: its name, used for one acquisition only.
        rule: says when its turn comes.
        written_at: its create revision once the write is acknowledged, else None.
        token: its create revision once its turn has come, else None.
        turn: set when it has come, or when it never will (`failure`).
        may_exist: whether its key was, or may have been, written.
        in_doubt: whether a write of the key may still be under way, so that deleting it once is not enough.
    """

    def __init__(self, key: str, callbacks: CallbackThread, rule: Admission = EXCLUSIVE) -> None:
        super().__init__(callbacks)
        self.key = key
        self.rule = rule
        self.written_at: int | None = None
        self.token: int | None = None
        self.turn = InterruptSafeEvent()
        self.may_exist = False
        self.in_doubt = False

    @property
    def created_at(self) -> int | None:
        """Its create revision, as soon as that is known at all."""
        return self.written_at or self.token

    def doubt(self) -> None:
        """A write of its key was not answered."""
        self.in_doubt = True

    def sure(self, create_revision: int | None) -> int | None:
        """The create revision, unless there may be a second write: what a deletion has to be sure of."""
        return None if self.in_doubt else create_revision

    @uninterrupted
    def grant(self, token: int) -> None:
        """Its turn has come, unless it has failed."""
        with self._lock:
            if self.failure is None:
                self.token = token
        self.turn.set()

    @uninterrupted
    def cancel(self, failure: LockError) -> None:
        """It waits no more, unless its turn has come: a hold is never cancelled. No loss, for the listeners."""
        with self._lock:
            cancelled = self.token is None and self._record(failure)
        if cancelled:
            self.turn.set()

    def _tell(self) -> None:
        self.turn.set()
        super()._tell()
