"""Keep the nodes of a Redis Cluster together: form_cluster.py [--check] NAME...

Containers change their addresses with every start, and a node knows the others by the addresses of the last one. This
introduces them to each other again, and divides the slots when all are new. It goes on until it is stopped. With
--check it looks once, and exits with 0 if each node knows all of them where they are, and all slots are served.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

PORT = 6379
SLOTS = 16384
TIMEOUT_S = 2.0
LOOK_S = 1.0


@dataclass(frozen=True)
class Node:
    """One node, and what it believes.

    Attributes:
        host: the address that its name has now.
        known: ``HOST:PORT`` of each node it knows, by the node's id, its own included.
        is_new: whether it knows no other, and has no slots.
        is_ready: whether it takes commands, and believes that all slots are served.
    """

    client: Any
    host: str
    id: str
    known: dict[str, str]
    is_new: bool
    is_ready: bool

    @classmethod
    def at(cls, name: str, port: int) -> Node:
        """Ask the node of that name; raises OSError or redis.RedisError."""
        host = socket.gethostbyname(name)
        client: Any = redis.Redis(
            host, port, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, decode_responses=True
        )
        nodes = client.cluster("NODES").items()
        known = {node["node_id"]: address for address, node in nodes if "handshake" not in node["flags"]}
        info = client.cluster("INFO")
        is_new = len(known) == 1 and info["cluster_slots_assigned"] == "0"
        is_ready = info["cluster_state"] == "ok" and info["cluster_slots_ok"] == str(SLOTS)
        return cls(client, host, client.execute_command("CLUSTER MYID"), known, is_new, is_ready)


def is_together(nodes: Sequence[Node], port: int = PORT) -> bool:
    """Whether each is ready, and knows where all of them are."""
    where = {node.id: f"{node.host}:{port}" for node in nodes}
    return all(node.is_ready and node.known == where for node in nodes)


def bring_together(nodes: Sequence[Node], port: int = PORT) -> None:
    """Give new nodes their slots, and each node the addresses that it does not know.

    The nodes are named in the same order each time: it decides which slots a new one gets.
    """
    for number, node in enumerate(nodes):
        if node.is_new:
            first, last = SLOTS * number // len(nodes), SLOTS * (number + 1) // len(nodes) - 1
            node.client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
            node.client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for node in nodes:
        for other in nodes:
            is_at = f"{other.host}:{port}"
            # A node learns its own address only when another one meets it.
            if node is not other and (node.known.get(other.id) != is_at or other.known.get(other.id) != is_at):
                node.client.execute_command("CLUSTER MEET", other.host, port)


def main(arguments: list[str]) -> int:
    """The command; its exit code."""
    check, names = "--check" in arguments, [word for word in arguments if word != "--check"]
    if not names:
        print(__doc__, file=sys.stderr)
        return 2
    told = ""
    while True:
        try:
            nodes = [Node.at(name, PORT) for name in names]
            state = "together" if is_together(nodes) else "not together yet"
            if check:
                return int(state != "together")
            if state != "together":
                bring_together(nodes)
        except (OSError, redis.RedisError) as error:
            state = str(error)
            if check:
                print(state, file=sys.stderr)
                return 1
        if state != told:
            print(f"redis-cluster: {', '.join(names)}: {state}", flush=True)
            told = state
        time.sleep(LOOK_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
