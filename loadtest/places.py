"""Where to look while a stack runs, and how to send it buyers: a line for each."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from loadtest.board import BOARD_URL

if TYPE_CHECKING:
    from loadtest.stack import Stack

LOCUST_PORT = 8089
_USUAL = {
    "FLASHSALE_REDIS_URL": "redis://127.0.0.1:6379/0",
    "FLASHSALE_ETCD_ENDPOINTS": "127.0.0.1:2379",
    "FLASHSALE_BOARD_URL": BOARD_URL,
}
_USUAL_HOSTS = ["http://127.0.0.1:8080", "http://127.0.0.1:8090"]


def places(stack: Stack) -> dict[str, str]:
    """What there is, by what it is called."""
    board = {"Board": stack.board.url} if stack.board else {}
    return {
        **board,
        "Shops": " ".join(stack.urls),
        "Buy one item": f"curl -X POST '{stack.urls[0]}/stock/reduce?guard=etcd'",
        "Send the rush": rush_command(stack),
    }


def rush_command(stack: Stack) -> str:
    """Locust with its page, led to this stack; what is as usual is left out."""
    settings = [
        f"{name}={shlex.quote(value)}" for name, value in directions(stack).items() if value != _USUAL.get(name)
    ]
    port = [] if stack.locust_port == LOCUST_PORT else [f"--web-port {stack.locust_port}"]
    hosts = [] if stack.urls == _USUAL_HOSTS else [f"--host {','.join(stack.urls)}"]
    return " ".join([*settings, ".venv/bin/locust --headful", *port, *hosts])


def directions(stack: Stack) -> dict[str, str]:
    """FLASHSALE_* settings that lead buyers to this stack."""
    board = {"FLASHSALE_BOARD_URL": stack.board.url} if stack.board else {}
    return {
        "FLASHSALE_REDIS_URL": stack.redis.url,
        "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint,
        "FLASHSALE_EVIDENCE": str(stack.evidence),
        **board,
    }
