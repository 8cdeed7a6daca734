"""gunicorn's worker with a greenlet for each connection, and a bound of connections and of time.

A client that sends the first half of many requests, or reads no answer, holds up no other phone: it has its own
greenlets, and each ends. One address cannot have all of them.
"""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any

from gevent import Timeout
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

from labs.room.bounds import client_of

MOST_OF_ONE_ADDRESS = 600  # connections; a whole room may stand behind one address, and browsers keep two or more
LONGEST_S = 10.0  # for the body of a request and all of its answer; its head has as long as a connection is kept


class RoomWorker(GeventWorker):  # type: ignore[misc]
    """The worker of the room; the board comes by a socket file, without an address, and is not bounded."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._of_address: Counter[str] = Counter()

    def handle(self, listener: Any, client: socket.socket, addr: Any) -> None:
        """Serve one connection, unless its address has too many."""
        address = client_of(addr[0]) if addr else ""
        if address and self._of_address[address] >= MOST_OF_ONE_ADDRESS:
            client.close()
            return
        self._of_address[address] += 1
        try:
            super().handle(listener, client, addr)
        finally:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def handle_request(self, listener_name: Any, req: Any, sock: socket.socket, addr: Any) -> None:
        """Answer one request; a client that sends or reads too slowly ends its connection."""
        if not addr:
            super().handle_request(listener_name, req, sock, addr)
            return
        with Timeout(LONGEST_S, False):
            super().handle_request(listener_name, req, sock, addr)
            if not req.unreader.buf.getvalue():  # what follows without waiting does not come from the page
                return
        raise StopIteration  # which gunicorn takes for the end of a connection
