"""Ports on loopback: the usual ones, whether one is occupied, and which one is free."""

from __future__ import annotations

import random
import socket
from collections import OrderedDict

LOOPBACK = "127.0.0.1"
BOARD_PORT, LOCUST_PORT = 8070, 8089
# Below the range that systems give to outgoing connections: a client that reconnects to a stopped server's port would
# otherwise now and then take that port itself.
_FREE_RANGE = range(20000, 30000)
_MOST_CLAIMS = 256
_claims: OrderedDict[int, socket.socket] = OrderedDict()  # the ports this process was given last


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
    """A port that nothing listens on, and that neither this process nor another one was given lately."""
    while True:
        port = random.SystemRandom().choice(_FREE_RANGE)
        if port not in _claims and not is_occupied(port) and _claim(port):
            return port


def _claim(port: int) -> bool:
    """Keep others from being given `port` while no server listens on it yet, or while one is being restarted.

    The sign is a UDP socket of the same number: servers, which listen on TCP, are not disturbed by it, and it goes with
    this process.
    """
    sign = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sign.bind((LOOPBACK, port))
    except OSError:
        sign.close()
        return False
    _claims[port] = sign
    if len(_claims) > _MOST_CLAIMS:
        _claims.popitem(last=False)[1].close()
    return True
