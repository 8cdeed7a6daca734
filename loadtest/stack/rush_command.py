"""The command that starts Locust's page for a stack."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from loadtest.stack.apps import BOARD_URL

LOCUST_PORT = 8089
_USUAL = {
    "FLASHSALE_REDIS_URL": "redis://127.0.0.1:6379/0",
    "FLASHSALE_ETCD_ENDPOINTS": "127.0.0.1:2379",
    "FLASHSALE_BOARD_URL": BOARD_URL,
}
_USUAL_HOSTS = ["http://127.0.0.1:8080", "http://127.0.0.1:8090"]


def rush_command(hosts: Sequence[str], settings: Mapping[str, str], port: int) -> str:
    """For the shops at `hosts`, with these FLASHSALE_* settings; what is as usual is left out."""
    unusual = [f"{name}={shlex.quote(value)}" for name, value in settings.items() if value != _USUAL.get(name)]
    web_port = [] if port == LOCUST_PORT else [f"--web-port {port}"]
    host = [] if hosts == _USUAL_HOSTS else [f"--host {','.join(hosts)}"]
    return " ".join([*unusual, ".venv/bin/locust --headful", *web_port, *host])
