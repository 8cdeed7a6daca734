"""A fair, fenced, observable lock on etcd, in the queue of Go's client, `etcdctl lock` and jetcd.

>>> from lock import connect, Mutex, Session
>>> with connect("127.0.0.1:2379") as client, Session(client, ttl=10) as session:
...     with Mutex(session, "flash-sale/stock").acquire(timeout=5) as hold:
...         write_with(hold.token)
"""

from lock.errors import (
    AdmissionConflict,
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
    UpgradeRefused,
)
from lock.etcd.client import Client, connect
from lock.etcd.requests import Created
from lock.etcd.transport import Observer, Tls
from lock.model import Contender, KeyValue
from lock.recipes.cohort import CohortMutex, Turn
from lock.recipes.election import Election, Leader, Leadership, Observation
from lock.recipes.hold import Hold
from lock.recipes.multi import MultiHold, MultiLock
from lock.recipes.mutex import Mutex
from lock.recipes.read_write import ReadHold, ReadWriteLock, WriteHold
from lock.recipes.reentrant import ReentrantHold, ReentrantMutex
from lock.recipes.semaphore import Permit, Semaphore
from lock.session.session import Session

__all__ = [
    "AdmissionConflict", "Client", "CohortMutex", "Contender", "Created", "Election", "EtcdDenied", "EtcdError",
    "EtcdUnavailable", "ForkedError", "Hold", "HoldExpired", "InvalidName", "KeyValue", "Leader", "Leadership",
    "LeaseNotFound", "LockCancelled", "LockError", "LockLost", "LockTimeout", "MultiHold", "MultiLock", "Mutex",
    "NotHeld", "Observation", "Observer", "Permit", "ReadHold", "ReadWriteLock", "ReentrantHold", "ReentrantMutex",
    "Semaphore", "Session", "SessionLost", "Tls", "Turn", "UpgradeRefused", "WriteHold", "connect",
]  # fmt: skip
