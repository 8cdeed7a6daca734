"""The names of keys: ``NAME/[FOLDER]LEASE-NUMBER``. Those of keys that are gone are taken again, the lowest first."""

from __future__ import annotations

from collections.abc import Container

from lock.core.queue import Queue, Ticket


class KeyNames:
    """Names keys for the tickets of one lease."""

    def __init__(self, lease_id: int) -> None:
        self._lease_id = lease_id
        self._burnt: dict[str, int] = {}  # the highest number in doubt by folder, which several names may share

    def take(self, queue: Queue, folder: str, taken: Container[str]) -> tuple[int, str]:
        """A number and a key for a new ticket: the first that is not `taken`, above all in doubt there.

        Keys of a name below, and writes of them that are still to arrive, may stand in our folder.
        """
        path = f"{queue.prefix}{folder}"
        passed: list[int] = []
        while True:
            slot = queue.take_slot(self._burnt.get(path, 0))
            key = f"{path}{self._lease_id:x}-{slot:x}"
            if key not in taken:
                queue.put_back(passed)
                return slot, key
            passed.append(slot)

    def burn(self, ticket: Ticket) -> None:
        """Its key may still be written, so no ticket of any name is given it again."""
        path = ticket.key[: ticket.key.rindex("/") + 1]
        self._burnt[path] = max(self._burnt.get(path, 0), ticket.slot)
