"""What one phone, and one address, may ask for in a time: token buckets."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict

MOST_KEPT = 4096  # clients; one that comes back after so many others begins with a full bucket


def client_of(address: str) -> str:
    """The client behind an address, for bounds: of IPv6 a network of 64 bits, all of which one computer may use."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return address
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))


class RateLimits:
    """At most `burst` requests of a client at once, and `per_s` each second for long. Thread-safe."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how many, as of when

    def allows(self, client: str, *, cost: int = 1) -> bool:
        """Whether the client may ask once more; counts the request as `cost` if so."""
        now = time.monotonic()
        with self._lock:
            left, at = self._left.pop(client, (self._burst, now))
            left = min(left + (now - at) * self._per_s, self._burst)
            allowed = left >= 1
            self._left[client] = (left - cost if allowed else left, now)
            if len(self._left) > MOST_KEPT:
                self._left.popitem(last=False)
        return allowed
