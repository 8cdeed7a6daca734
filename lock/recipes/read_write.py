"""Many readers or one writer of one name over all processes, first come first served.

Rules: a reader needs no writer before it, a writer needs no key before it. So readers that come behind a waiting writer
wait for it, and no writer starves. Any key that is not a reader's is exclusive: of a `Mutex`, of ``etcdctl lock``, of
Go's ``concurrency.Mutex`` (a reader that looks only for writers does not see them: etcd issue 6408).

Readers stand under ``NAME/read/``, writers under ``NAME/write/``, where Go's ``recipes.RWMutex`` looks for them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

from lock.core.acquisition import Acquisition, Terms
from lock.core.admission import Admission
from lock.errors import UpgradeRefused
from lock.model import Contender, Declaration, KeyValue, declaration
from lock.recipes.attempt import Attempt
from lock.recipes.hold import Hold
from lock.recipes.queued_lock import QueuedLock
from lock.session.session import Session

_READ = "read"
_GO_READER = re.compile(r"/read/\d{19}\Z")  # the key of recipes.RWMutex: nanoseconds since 1970


@dataclass(frozen=True)
class ReadersTogether(Admission):
    """Readers hold together, others alone."""

    def kind(self, kv: KeyValue) -> str | None:
        """A reader of ours or of Go's; `None` for all others.

        Go's is known by its key alone: if its value counted, a reader that is overwritten would turn exclusive
        while others hold beside it.
        """
        if declaration(kv).kind == _READ or _GO_READER.search(kv.key):
            return _READ
        return None

    def admits(self, kind: str, ahead: Mapping[str, int]) -> bool:
        return True


class ReadHold(Hold):
    """A lock held for reading, together with other readers.

    Attributes:
        token: a fencing token to be checked by the resource and not to be raised there: see docs/lock.md.
    """


class WriteHold(Hold):
    """A lock held for writing, alone."""

    readers: QueuedLock[ReadHold]
    owner: ref[Any]
    _reader: ReadHold | None = None  # what it has become

    def downgrade(self) -> ReadHold:
        """Go on as a reader in the same place, and let the readers behind it in; no write can come in between.

        The result has the same key and token; this hold counts as released, and leaving its ``with`` releases the
        reader. Not if Go's ``recipes.RWMutex`` queues as well: its writers don't see a key that was overwritten.

        A condition from `is_owner` goes on being true, for the key stays: downgrade only after every transaction was
        answered, or else release and read again.

        Raises as `ensure`; `EtcdUnavailable`: the hold is given up.
        """
        return self._client.apart(self._downgrade, threading.current_thread().name, undo=ReadHold._give_up)

    def _downgrade(self, thread: str) -> ReadHold:
        self.ensure()
        reader, owner = self._pass_on(ReadHold), self.owner()
        if owner is not None:
            reader._keep_in(self.readers._held_by(owner))
        try:
            reader._overwrite(self._engine.identity(Declaration(_READ), thread))
        except BaseException:
            reader._give_up()
            raise
        self._reader = reader
        return reader

    def _left_by(self, owner: object) -> Hold | None:
        if self._reader is None:
            return self
        return None if self._reader.released else self._reader


class WriteLock(QueuedLock[WriteHold]):
    """The writers' side of a `ReadWriteLock`."""

    def __init__(self, readers: QueuedLock[ReadHold], max_hold: float | None) -> None:
        super().__init__(readers.session, readers.name, WriteHold, terms=_terms("write"), max_hold=max_hold)
        self._readers = readers

    def _start(self, attempt: Attempt, until: float, **options: Any) -> Acquisition:
        if self._readers._held_by(attempt.owner) and not (options.get("tries") and not options.get("explains")):
            raise UpgradeRefused(
                f"lock {self.name!r}: a reader cannot become a writer: two that try wait for each other. "
                "Release, acquire write, and read again"
            )
        return super()._start(attempt, until, **options)

    def _finish(self, acquisition: Acquisition, owner: object) -> WriteHold:
        hold = super()._finish(acquisition, owner)
        hold.readers, hold.owner = self._readers, ref(owner)
        return hold


class ReadWriteLock:
    """One name, locked by many readers or by one writer; costs nothing until used and may be shared.

    ``lock.read`` and ``lock.write`` are used as a `Mutex` is: ``with lock.read as hold``. A thread
    that reads and then acquires `write` gets `UpgradeRefused`: it would wait for itself, and two such threads for each
    other (kazoo issue 649). A thread that reads should not acquire `read` again: a writer between the two waits for the
    first, and the second for that writer. Arguments and errors are those of `Mutex`.

    Attributes:
        read: its holds are `ReadHold`.
        write: its holds are `WriteHold`.
    """

    def __init__(self, session: Session, name: str, *, max_hold: float | None = None) -> None:
        self.read = QueuedLock(session, name, ReadHold, terms=_terms(_READ), max_hold=max_hold)
        self.write = WriteLock(self.read, max_hold)

    def __repr__(self) -> str:
        return f"<ReadWriteLock: {self.read._label}>"

    def contenders(self) -> list[Contender]:
        """Holders and waiters, holders first; raises as `Mutex.contenders`."""
        return self.read.contenders()


def _terms(kind: str) -> Terms:
    return Terms(ReadersTogether(), Declaration(kind), f"{kind}/")
