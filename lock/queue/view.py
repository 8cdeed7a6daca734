"""What one process knows of a queue: a pure state machine, fed by lists and by events, of whatever age and order.

Why an old view is safe. The holder is the key with the smallest create revision. A view that has caught up with the
revision of a key knows every key that will ever stand before it, for later keys get larger revisions; from then on
those before it can only leave. So when the view says "head", it is true, however old the view is. A DELETE that is
never told costs time, until the next list. A PUT that is never told would cost more; etcd promises gapless watches
(documentation, "KV API guarantees"), and every end of a watch is followed by a list.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from lock.model import Event, KeyValue, Snapshot


class QueueView:
    """The keys under one prefix as of `revision` (0 before the first list), in the order of their create revisions.

    Not thread-safe: its owner serialises the calls.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._keys: OrderedDict[str, KeyValue] = OrderedDict()  # a plain dict finds its first key in linear time
        self._discarded: dict[str, int] = {}  # the create revisions of keys whose DELETE is still to be told

    def replace(self, snapshot: Snapshot, *, known: int = 0) -> bool:
        """Take a list for the truth, unless the view is newer; whether it was taken.

        `known` is the view's revision when the list was asked for. Only an etcd that was restored from a backup, or
        wiped, answers with a lower one: then what the view knows is not true any more.
        """
        if known <= snapshot.revision < self.revision:
            return False
        self.revision = snapshot.revision
        ghosts = {kv.key for kv in snapshot.keys if self._discarded.get(kv.key) == kv.create_revision}
        self._discarded = {key: self._discarded[key] for key in ghosts}  # they are still to be deleted
        self._keys = OrderedDict((kv.key, kv) for kv in snapshot.keys if kv.key not in ghosts)
        return True

    def apply(self, events: Iterable[Event]) -> None:
        """Follow the events of whole revisions; those the view knows already are passed over.

        Events before the first list are dropped: without the list nobody knows who stands before them.
        """
        if self.revision == 0:
            return
        fresh = [event for event in events if event.kv.mod_revision > self.revision]
        for deleted, kv in fresh:
            known = self._keys.get(kv.key)
            if known is not None and (deleted or known.create_revision != kv.create_revision):
                del self._keys[kv.key]
            if deleted:
                self._discarded.pop(kv.key, None)
            else:
                self._keys[kv.key] = kv  # a key that is overwritten keeps its create revision and its place
            self.revision = kv.mod_revision

    def discard(self, key: str, create_revision: int) -> None:
        """Forget a key whose hold is over, ahead of the event of its deletion; no list brings it back."""
        kv = self._keys.get(key)
        if kv is not None and kv.create_revision == create_revision:
            del self._keys[key]
            self._discarded[key] = create_revision

    def head(self) -> KeyValue | None:
        """The holder, or None where nobody is known."""
        return next(iter(self._keys.values()), None)

    def create_revision(self, key: str) -> int | None:
        """Since when it stands in the queue, None if it does not: a key that was deleted may have been made anew."""
        kv = self._keys.get(key)
        return None if kv is None else kv.create_revision

    def __len__(self) -> int:
        return len(self._keys)

    def in_order(self) -> list[KeyValue]:
        """Holder first, then the waiters."""
        return list(self._keys.values())
