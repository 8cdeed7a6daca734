"""A fair, fenced, observable lock on etcd, in the queue of Go's client, `etcdctl lock` and jetcd.

>>> from lock import connect, Mutex, Session
>>> with connect("127.0.0.1:2379") as client, Session(client, ttl=10) as session:
...     with Mutex(session, "flash-sale/stock").acquire(timeout=5) as hold:
...         write_with(hold.token)
"""

from lock.errors import (
    EtcdDenied,
    EtcdError,
    EtcdUnavailable,
    ForkedError,
    HoldExpired,
    InvalidName,
    LeaseNotFound,
    LockCancelled,
    LockError,
    LockLost,
    LockTimeout,
    NotHeld,
    SessionLost,
)
from lock.etcd.client import Client, connect
from lock.etcd.observer import Observer
from lock.etcd.transport import Tls
from lock.model import Contender
from lock.recipes.cohort import CohortMutex
from lock.recipes.election import Election, Leader, Leadership, Observation
from lock.recipes.hold import Hold
from lock.recipes.multi import MultiHold, MultiLock
from lock.recipes.mutex import Mutex
from lock.recipes.reentrant import ReentrantHold, ReentrantMutex
from lock.recipes.turn import CohortToken, Turn
from lock.session.session import Session

__all__ = [
    "Client",
    "CohortMutex",
    "CohortToken",
    "Contender",
    "Election",
    "EtcdDenied",
    "EtcdError",
    "EtcdUnavailable",
    "ForkedError",
    "Hold",
    "HoldExpired",
    "InvalidName",
    "Leader",
    "Leadership",
    "LeaseNotFound",
    "LockCancelled",
    "LockError",
    "LockLost",
    "LockTimeout",
    "MultiHold",
    "MultiLock",
    "Mutex",
    "NotHeld",
    "Observation",
    "Observer",
    "ReentrantHold",
    "ReentrantMutex",
    "Session",
    "SessionLost",
    "Tls",
    "Turn",
    "connect",
]
