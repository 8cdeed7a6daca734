"""All that a hostile network did to the room, at once: ``python -m labs.room.tests.siege HOST PORT PIN SECONDS``.

Many join, some flood, some read no answer, some send half a request, and some guess the PIN. Says what came of it: the
answers by their status, as JSON.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

JOINS, JOINERS, GUESSERS, FLOODERS, READERS, HALVES = 2000, 8, 6, 4, 400, 200
SOURCES = [f"198.51.100.{number}" for number in range(1, 255)]  # for documentation; the test routes them to itself


class Siege:
    """The attackers of one room, until a time of `time.monotonic`."""

    def __init__(self, host: str, port: int, pin: str, until: float) -> None:
        self._host, self._port, self._pin, self._until = host, port, pin, until
        self.answers: Counter[str] = Counter()

    def join(self, joiner: int) -> None:
        """Try to join so often, with the right PIN, from many addresses."""
        for number in range(joiner, JOINS, JOINERS):
            self._post("join", SOURCES[number % 60], {"name": f"crowd {number}", "pin": self._pin})

    def guess(self, guesser: int) -> None:
        """Try one PIN after the other, each from another address."""
        number = guesser
        while time.monotonic() < self._until:
            self._post("guess", SOURCES[60 + number % 120], {"name": "thief", "pin": f"{number % 1_000_000:06d}"})
            number += GUESSERS

    def flood(self, flooder: int) -> None:
        """Ask for the state as fast as it is answered."""
        while time.monotonic() < self._until:
            with contextlib.suppress(OSError, http.client.HTTPException):
                line = self._connect(SOURCES[200 + flooder])
                while time.monotonic() < self._until:
                    line.request("GET", "/state")
                    answer = line.getresponse()
                    answer.read()
                    self.answers[f"flood {answer.status}"] += 1

    def hold(self) -> None:
        """Keep connections that read no answer, and some that never finish their request; again where they end."""
        question = f"GET /static/phone.js HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n\r\n".encode()
        lines: list[tuple[socket.socket, bytes]] = []
        while time.monotonic() < self._until:
            while len(lines) < READERS + HALVES:
                is_reader = len(lines) < READERS
                line = socket.socket()
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                line.settimeout(0.5)
                with contextlib.suppress(OSError):
                    line.bind((SOURCES[220 if is_reader else 221], 0))
                    line.connect((self._host, self._port))
                lines.append((line, question if is_reader else b"POST /bet HTTP/1.1\r\nContent-Length: 20\r\n\r\n{"))
            for line, text in lines[:]:
                try:
                    line.sendall(text)
                except OSError:
                    line.close()
                    lines.remove((line, text))
            time.sleep(0.2)
        for line, _ in lines:
            line.close()

    def _post(self, deed: str, source: str, body: dict[str, str]) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            line = self._connect(source)
            line.request("POST", "/join", json.dumps(body), {"Content-Type": "application/json"})
            answer = line.getresponse()
            answer.read()
            line.close()
            self.answers[f"{deed} {answer.status}"] += 1

    def _connect(self, source: str) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=10, source_address=(source, 0))


def main() -> None:
    """Lay siege for so long."""
    host, port, pin, seconds = sys.argv[1:]
    siege = Siege(host, int(port), pin, time.monotonic() + float(seconds))
    with ThreadPoolExecutor(JOINERS + GUESSERS + FLOODERS + 1) as threads:
        work = [threads.submit(siege.join, number) for number in range(JOINERS)]
        work += [threads.submit(siege.guess, number) for number in range(GUESSERS)]
        work += [threads.submit(siege.flood, number) for number in range(FLOODERS)]
        work.append(threads.submit(siege.hold))
        print("begun", flush=True)
        for each in work:
            each.result()
    print(json.dumps(siege.answers), flush=True)


if __name__ == "__main__":
    main()
