"""What a stepped purchase sends: each command to Redis and each request to etcd, wherever in its process.

Python's sockets, its calls for files and the calls of gRPC are wrapped. A command to Redis stops before its bytes
leave, in whatever thread, task or client; so does an HTTP request to etcd's gateway. A script and a transaction are one
command each. A pipeline that is no transaction is sent command by command, as others may come between. A command that
blocks waits for a moment, and is sent again later. What leaves the process by another way is not seen here, but the
servers count it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from labs.steps.stepped import SteppedPurchase


class Fate(Enum):
    """What becomes of a command that was sent, and done."""

    ANSWERED = "answered"
    LOST = "lost"  # the connection breaks before its answer comes
    KILLED = "killed"  # its process does


@dataclass
class Wire:
    """Who sends what in this process."""

    # The purchase whose thread this is, if it is that of one.
    owner: Callable[[], SteppedPurchase | None] = lambda: None
    redis: set[int] = field(default_factory=set)  # ports of the servers
    etcd: set[int] = field(default_factory=set)
    life_ms: int = 0  # of a key that expires, where it is to outlive all schedules
    # Bytes to Redis, and requests to etcd, whoever has sent them: the servers count the same. It may be in a file.
    sent: memoryview = field(default_factory=lambda: memoryview(bytearray(2 * 8)).cast("Q"))
    pending: int = 0  # requests to etcd whose answer is waited for elsewhere
    others: set[str] = field(default_factory=set)  # what else purchases have used that cannot be stopped
    # Where a file lies that purchases share, for the path that one of them names; None for other files.
    shared: Callable[[str], str | None] | None = None

    def wrap(self) -> None:
        """Wrap what sends, once for this process."""
        from labs.steps.wire import calls, files, sockets

        calls.wrap()
        files.wrap()
        sockets.wrap()


TO_REDIS, TO_ETCD = 0, 1  # places in `Wire.sent`
wire = Wire()


def numbers_in(path: Path, kind: Literal["Q", "d"], many: int) -> Any:
    """Numbers of 8 bytes that processes share, "Q" for integers, "d" for floats; they outlive them. Raises OSError."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(8 * many)
        return memoryview(mmap(file.fileno(), 8 * many)).cast(kind)


def end_if_killed(fate: Fate) -> None:
    """Its process dies now, if that is the fate of the command that was just answered."""
    if fate is Fate.KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
