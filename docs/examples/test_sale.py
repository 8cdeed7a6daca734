"""Tests of code that locks, with an etcd in memory: the fixture `etcd_lock` of the library."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lock import LockLost, LockTimeout, Mutex


def sell(session, stock):
    """Sell a pen: your code."""
    with Mutex(session, "shop/stock").acquire(timeout=5) as hold:
        left = stock["pen"]
        hold.ensure()
        stock["pen"] = left - 1


def test_a_sale_does_not_wait_for_ever(etcd_lock):
    """While another process holds the lock, it gives up in time."""
    ours, theirs = etcd_lock.session(), etcd_lock.session()  # as two processes
    with Mutex(theirs, "shop/stock").acquire() as hold, ThreadPoolExecutor() as pool:
        waits = threading.Event()
        hold.on_contended(waits.set)
        sale = pool.submit(sell, ours, {"pen": 10})
        assert waits.wait(5)
        etcd_lock.clock.advance(6)  # the leases are renewed; the wait of 5 s is over
        with pytest.raises(LockTimeout):
            sale.result()


def test_a_paused_sale_writes_nothing(etcd_lock):
    """A pause that outlasts the lease, between read and write, raises before the write."""

    class Paused(dict):
        def __getitem__(self, item):
            etcd_lock.clock.advance(11)  # longer than the TTL, between read and write
            return super().__getitem__(item)

    stock = Paused(pen=10)
    with pytest.raises(LockLost):
        sell(etcd_lock.session(), stock)
    assert dict(stock) == {"pen": 10}
