"""The recipes of `lock` for asyncio: a task that waits costs no thread.

>>> from lock import Session, aio, connect
>>> async def sell(session: Session) -> `None`:
...     async with aio.Mutex(session, "flash-sale/stock").acquire(timeout=5) as hold:
...         await write_with(hold.token)

Sessions are those of `lock`: one serves threads and tasks at once. Making and closing one blocks for some milliseconds,
so do that before the loop starts, or with ``await asyncio.to_thread(Session, client)``.
"""

from lock.aio.holds import AsyncHold, Hold, Leadership, Lost, MultiHold, Permit, ReadHold, Turn, WriteHold
from lock.aio.recipes import (
    Acquiring,
    AsyncLock,
    CohortMutex,
    Election,
    MultiLock,
    Mutex,
    ReadWriteLock,
    ReentrantMutex,
    Semaphore,
)

__all__ = [
    "Acquiring", "AsyncHold", "AsyncLock", "CohortMutex", "Election", "Hold", "Leadership", "Lost", "MultiHold",
    "MultiLock", "Mutex", "Permit", "ReadHold", "ReadWriteLock", "ReentrantMutex", "Semaphore", "Turn",
    "WriteHold",
]  # fmt: skip
