"""Step 3: one thread at a time, over all instances."""

import os

from shop import buy, serve

from lock import LockLost, LockTimeout, Mutex, Session, connect

client = connect(os.environ.get("ETCD", "127.0.0.1:2379"))
session = Session(client, ttl=2)  # seconds until a dead process is out of the way
mutex = Mutex(session, "tutorial/stock")


def buy_alone(buyer: str) -> str:
    """Sell inside the lock, if it can be had in time."""
    try:
        with mutex.acquire(timeout=15):
            return buy(buyer)
    except LockTimeout:
        return "busy"
    except LockLost:
        return "the lock was lost"


if __name__ == "__main__":
    serve(buy_alone)
