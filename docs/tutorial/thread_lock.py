"""Step 2: one thread at a time, in this process."""

import threading

from shop import buy, serve

lock = threading.Lock()


def buy_alone(buyer: str) -> str:
    """Sell inside the lock."""
    with lock:
        return buy(buyer)


serve(buy_alone)
