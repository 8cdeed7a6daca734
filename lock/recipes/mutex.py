"""A fair, fenced mutex: one holder per name over all processes, first come first served.

`acquire` either returns a hold or raises, so the body of ``with`` never runs unlocked.

A lock alone cannot keep a paused holder from writing after its lease has ended. The resource can: let it refuse a token
lower than the highest it has seen, in reads and in writes (M. Kleppmann, "How to do distributed locking", 2016).
"""

from lock.recipes.hold import Hold
from lock.recipes.queued_lock import QueuedLock
from lock.session.session import Session


class Mutex(QueuedLock[Hold]):
    """One name, to be locked by any thread; costs nothing until used and may be shared.

    Each acquisition queues with its own key, so threads of one process compete as processes do. It is not reentrant: a
    thread that acquires twice waits for itself.

    Args:
        session: the process's session.
        name: slash-separated, without empty parts. A name waits for everything below it too: see `lock.names`.
        max_hold: seconds after which a hold gives itself up, so that a critical section that hangs in a living process
            does not block all others; `None` for never. (The session's `ttl` is what happens when the process dies.)

    Raises:
        InvalidName: the name has an empty part, is empty, or is longer than 4096 bytes.
        ValueError: `max_hold` is not positive.
        TypeError: an argument has the wrong type.
    """

    def __init__(self, session: Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(session, name, Hold, max_hold=max_hold)
