"""Redis that writes everything to disk before it answers, so that a restart loses nothing: one node, or five."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis

from labs.libraries.stores.store import Store
from loadtest.stack.servers import Redis

TIMEOUT_S = 10.0


class RedisStore(Store):
    """Independent nodes; a Redlock takes five, as pottery's README advises."""

    def __init__(self, directory: Path, nodes: int = 1) -> None:
        names = [f"redis-{number}" for number in range(1, nodes + 1)]
        super().__init__([Redis(directory, appendonly=True, name=name) for name in names])

    @property
    def _clients(self) -> list[Any]:
        ports = [process.port for process in self.processes]
        return [redis.Redis("127.0.0.1", port, socket_timeout=TIMEOUT_S, decode_responses=True) for port in ports]

    def version(self) -> str:
        about = self._clients[0].info("server")
        name = about.get("server_name", "redis").capitalize()
        many = f"{len(self.processes)} x " if len(self.processes) > 1 else ""
        return f"{many}{name} {about.get('valkey_version', about['redis_version'])}"

    def keys(self, name: str) -> list[str]:
        return [key for client in self._clients for key in client.scan_iter(f"*{name}*")]

    def delete(self, name: str) -> None:
        for client in self._clients:
            for key in list(client.scan_iter(f"*{name}*")):
                client.delete(key)

    def requests(self) -> int:
        return sum(int(client.info("stats")["total_commands_processed"]) for client in self._clients)
