"""What one process knows of a queue: a pure state machine, fed by lists and by events, of whatever age and order.

A key that the view admits is admitted in truth, however old the view is: docs/lock-theory.md proves it. A key's kind
never changes, but for a downgrade, which only lets more in. Nor does it matter that processes learn of departures at
different times: each admits no more than the queue without all keys that are over, and those may hold together.

A DELETE that is never told costs time, until the next list. A PUT that is never told would cost more; etcd promises
gapless watches (documentation, "KV API guarantees"), and every end of a watch is followed by a list.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from lock.core.admission import Admission, Frontier
from lock.model import Event, KeyValue, Snapshot


class QueueView:
    """The keys under one prefix as of `revision` (0 before the first list), in the order of their create revisions.

    Not thread-safe: its owner serialises the calls. For `discarded` see `discard`.
    """

    def __init__(self, discarded: Mapping[str, int | None] | None = None) -> None:
        self.revision = 0
        self._keys: OrderedDict[str, KeyValue] = OrderedDict()  # a plain dict finds its first key in linear time
        self._discarded = dict(discarded or {})  # the create revisions of keys whose DELETE is still to be told
        self._frontiers: dict[Admission, Frontier] = {}

    def follow(self, rule: Admission) -> None:
        """Tell from now on whom this rule admits."""
        if rule not in self._frontiers:
            self._frontiers[rule] = Frontier(rule, self._keys.values())

    def replace(self, snapshot: Snapshot, *, known: int = 0) -> bool:
        """Take a list for the truth, unless the view is newer; whether it was taken.

        `known` is a revision that was known when the list was asked for. Only an etcd that was restored from a backup,
        or wiped, answers with a lower one: then what the view knows is not true any more.
        """
        if known <= snapshot.revision < self.revision:
            return False
        ghosts = {kv.key for kv in snapshot.keys if self._discarded.get(kv.key) == kv.create_revision}
        self._discarded = {key: self._discarded[key] for key in ghosts}  # they are still to be deleted
        self._keys = OrderedDict((kv.key, kv) for kv in snapshot.keys if kv.key not in ghosts)
        self._frontiers = {rule: Frontier(rule, self._keys.values()) for rule in self._frontiers}
        self.revision = snapshot.revision
        return True

    def apply(self, events: Iterable[Event]) -> None:
        """Follow the events of whole revisions; those the view knows already are passed over.

        Events before the first list are dropped: without the list it is not known what stands before them.
        """
        if self.revision == 0:
            return
        fresh = [event for event in events if event.kv.mod_revision > self.revision]
        for deleted, kv in fresh:
            known = self._keys.get(kv.key)
            if known is not None and known.create_revision != kv.create_revision:  # of a deleted key it is 0
                self._remove(kv.key)
            if deleted:
                self._discarded.pop(kv.key, None)
            elif self._discarded.get(kv.key) != kv.create_revision:  # else overwritten before it was let go
                self._keys[kv.key] = kv  # a key that is overwritten keeps its create revision and its place
                for frontier in self._frontiers.values():
                    frontier.put(kv)
            self.revision = kv.mod_revision

    def discard(self, key: str, create_revision: int) -> None:
        """Forget a key whose hold is over, ahead of the event of its deletion; no list brings it back."""
        kv = self._keys.get(key)
        if kv is not None and kv.create_revision == create_revision:
            self._remove(key)
            self._discarded[key] = create_revision

    def advance(self) -> list[tuple[Admission, str]]:
        """The keys that hold from now on, each with the rule that says so; to be asked after each change."""
        return [(rule, key) for rule, frontier in self._frontiers.items() for key in frontier.advance()]

    def admits(self, rule: Admission, key: str) -> bool:
        return self._frontiers[rule].holds(key)

    def conflicts(self) -> dict[Admission, str]:
        """The rules by which no key can wait behind the first one, and why."""
        first = self.head()
        return {} if first is None else {rule: why for rule in self._frontiers if (why := rule.conflict(first))}

    def has_waiters(self, rule: Admission) -> bool:
        """Whether any key has to wait by a rule that is followed."""
        return self._frontiers[rule].has_waiters()

    def __len__(self) -> int:
        return len(self._keys)

    def has_no_other(self, key: str) -> bool:
        return len(self._keys) == (key in self._keys)

    def head(self) -> KeyValue | None:
        """The first key, which holds by any rule, or None where none is known."""
        return next(iter(self._keys.values()), None)

    def create_revision(self, key: str) -> int | None:
        """Since when it stands in the queue, None if it does not: a key that was deleted may have been made anew."""
        kv = self._keys.get(key)
        return None if kv is None else kv.create_revision

    def _remove(self, key: str) -> None:
        del self._keys[key]
        for frontier in self._frontiers.values():
            frontier.remove(key)
