"""Ports on loopback: is one occupied, and which one is free."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range that systems give to outgoing connections: a client that reconnects to a stopped server's port would
# otherwise now and then take that port itself.
_FREE_RANGE = range(20000, 30000)
_given: set[int] = set()


def is_occupied(port: int) -> bool:
    """Whether something listens on `port` of the loopback interface."""
    with socket.socket() as probe:
        if probe.connect_ex((LOOPBACK, port)) == 0:
            return True
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def free_port() -> int:
    """A port that nothing listens on and that this process was not given before."""
    while True:
        port = random.choice(_FREE_RANGE)
        if port not in _given and not is_occupied(port):
            _given.add(port)
            return port
