"""Where to look while a stack runs, and how to send it buyers: a line for each."""

from __future__ import annotations

from loadtest.stack.stack import Stack


def places(stack: Stack) -> dict[str, str]:
    """What there is, by what it is called."""
    board = {"Board": stack.board.url} if stack.board else {}
    return {
        **board,
        "Shops": " ".join(stack.urls),
        "Buy one item": f"curl -X POST '{stack.urls[0]}/stock/reduce?guard=etcd'",
        "Send the rush": stack.rush_command,
    }
