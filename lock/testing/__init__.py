"""An etcd in memory, for tests of code that locks: no server, no socket, no waiting for time to pass.

Sessions and recipes are those of `lock`, for threads and for `lock.aio`, on the same core. What it cannot show: the
network and gRPC, with calls that are late, lost on the way back or half done; other clients of the queue; logins,
certificates and namespaces; how fast anything is; and what etcd itself gets wrong. For that, test against a real etcd.

>>> from lock import Mutex
>>> from lock.testing import MemoryEtcd
>>> with MemoryEtcd() as etcd, Mutex(etcd.session(), "stock").acquire() as hold:
...     etcd.clock.advance(11)
...     assert hold.lost.is_set()

With pytest, the fixture `etcd_lock` is one. The clock is that of the process: a session of a real etcd in the same
process would take its lease for over as well.
"""

from lock.testing.clock import Clock
from lock.testing.etcd import MemoryEtcd, MemorySession

__all__ = ["Clock", "MemoryEtcd", "MemorySession"]
