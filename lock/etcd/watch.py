"""What changes under a prefix, as it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lock.etcd.stream import Stream
from lock.model import Event, KeyValue


class Watch:
    """Changes under one prefix, read by one thread and closed by any."""

    def __init__(self, stream: Stream, decode: Callable[[Any], KeyValue]) -> None:
        self._stream = stream
        self._decode = decode

    def __iter__(self) -> Iterator[list[Event]]:
        """Each batch of changes, until `close`; a batch never splits a revision.

        The first one is empty and says that the watch stands: what is listed after it misses nothing. (Etcd delivers at
        once to a watch of the present, but looks only every 100 ms after one that starts at an older revision.)

        Raises:
            EtcdError: the watch is over, by a broken connection, a compaction or the server's decision: list again.
        """
        for response in self._stream:
            yield [self._event(event) for event in response.events]

    def close(self) -> None:
        """End the watch; its reader stops."""
        self._stream.close()

    def _event(self, event: Any) -> Event:
        return Event(event.type == event.DELETE, self._decode(event.kv))
