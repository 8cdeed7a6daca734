"""Redis as a cluster, and replicas that are waited for; the rest of the program sees a plain `redis.Redis`.

redis-py's RedisCluster connects when it is made, repeats what was not answered, and takes no script into a pipeline.
Here each command goes to the node that has its keys just now. Which node that is is asked once a second, by the command
that comes then. So a failover or a slot that moves is followed within a second; until then, and while a slot has no
node, commands fail as without Redis.

A master answers before its replicas have what was written. If it is lost then, so is the order that a buyer has heard
of. With `replicas`, each script is followed by ``WAIT`` on the same connection, and an answer that too few replicas
stand behind counts as a lost one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import redis
from redis.client import Pipeline
from redis.crc import key_slot

from app.sales.redis_client import NotSent, Pool, Refused, Script, make_pool

REFRESH_S = 1.0
WAIT_MS = 500  # for the replicas; less than the time for an answer
SCRIPTS = ("EVALSHA", "EVAL")
Call = tuple[Sequence[str], Sequence[str | int]]  # keys and arguments of a script


def cluster(url: str, *, connections: int, timeout: float, replicas: int) -> ClusterClient:
    """A client of the cluster at `url`: some nodes, ``redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT[?OPTIONS]``.

    Nothing is sent before its first command. `connections` and `timeout` are those of each node, see
    `app.sales.redis_client.connect`.
    """
    scheme, _, rest = url.partition("+cluster://")
    place, _, options = rest.partition("?")
    login, at, seeds = place.rpartition("@")
    pool = partial(make_pool, connections=connections, timeout=timeout)
    nodes = Nodes(seeds.split(","), lambda address: pool(f"{scheme}://{login}{at}{address}?{options}"))
    return ClusterClient(nodes, replicas)


class ReplicatedClient(redis.Redis):
    """A client of one node.

    Attributes:
        replicas: that must have what a script wrote, before its answer counts.
    """

    replicas = 0

    def execute_command(self, *command: Any, **options: Any) -> Any:
        """As redis-py's; of a script as `send_together`."""
        if self.replicas and command[0] in SCRIPTS:
            return send_together(self, command)[0]
        return super().execute_command(*command, **options)  # type: ignore[no-untyped-call]


def send_together(client: redis.Redis, *commands: tuple[Any, ...]) -> list[Any]:
    """Send these to one node in one trip; the answers.

    Raises:
        TimeoutError: everything was executed, but too few replicas have it, so it may be lost with its node.
    """
    replicas = client.replicas if isinstance(client, ReplicatedClient) else 0
    with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)  # type: ignore[no-untyped-call]
        if replicas:
            pipe.wait(replicas, WAIT_MS)
        answers = pipe.execute()
    if replicas and (copies := answers.pop()) < replicas:
        raise redis.TimeoutError(f"{copies} of {replicas} replicas have it after {WAIT_MS} ms")
    return answers


def run_together(script: Script, client: redis.Redis, calls: Sequence[Call]) -> list[Any]:
    """Run a script with all these keys and arguments in one step on one node; the answers."""
    if len(calls) == 1:
        return [script.run(client, *calls[0])]
    scripts = [("EVAL", script.text, len(keys), *keys, *args) for keys, args in calls]
    answers: list[Any] = send_together(client, ("MULTI",), *scripts, ("EXEC",))[-1]
    for error in answers:
        if isinstance(error, Exception):
            raise error
    return answers


def for_key(client: redis.Redis, key: str) -> redis.Redis:
    """The client for all keys with the hash tag of this one: the same for all, unless it is a cluster's."""
    return client.for_slot(key_slot(key.encode())) if isinstance(client, ClusterClient) else client


def node_of(client: redis.Redis) -> Any:
    """The connections to the node of such a client, which stand for the node; raises NotSent if there is none."""
    pool = client.connection_pool
    return pool.node() if isinstance(pool, SlotPool) else pool


class Nodes:
    """The nodes of one cluster and their slots; `seeds` are ``HOST:PORT`` of some. Thread-safe."""

    def __init__(self, seeds: list[str], make_pool: Callable[[str], Pool]) -> None:
        self._seeds = self._known = seeds
        self._make_pool = make_pool
        self._pools: dict[str, Pool] = {}
        self._owners: list[tuple[int, int, str]] = []
        self._fresh_until = 0.0
        self._refreshing = threading.Lock()

    def pool_at(self, address: str) -> Pool:
        return self._pools.get(address) or self._pools.setdefault(address, self._make_pool(address))

    def any_pool(self) -> Pool:
        """The connections to a node that is known."""
        return self.pool_at(self._known[0])

    def pool_of(self, slot: int) -> Pool:
        """The connections to the node that has the slot; raises NotSent if none is known."""
        if time.monotonic() > self._fresh_until and self._refreshing.acquire(blocking=not self._owners):
            try:
                if time.monotonic() > self._fresh_until:  # or another thread did it while this one waited
                    self.refresh()
            finally:
                self._refreshing.release()
        for first, last, address in self._owners:
            if first <= slot <= last:
                return self.pool_at(address)
        raise NotSent(f"no node of the Redis Cluster has slot {slot}")

    def first_slots(self) -> list[int]:
        """A slot of each node."""
        self.pool_of(0)
        return [first for first, _, _ in {address: each for each in self._owners for address in each[2:]}.values()]

    def refresh(self) -> None:
        """Ask one node after the other which has which slot; keep what is known if none answers."""
        for address in self._known:
            try:
                client: Any = redis.Redis(connection_pool=self.pool_at(address))
                ranges = client.execute_command("CLUSTER SLOTS")
            except (redis.ConnectionError, redis.TimeoutError, Refused):
                continue
            here = address.rpartition(":")[0].strip("[]")
            nodes = [[_address(host or here, port) for host, port, *_ in each[2:]] for each in ranges]
            self._owners = [(first, last, owner) for (first, last, *_), (owner, *_) in zip(ranges, nodes, strict=True)]
            self._known = list(dict.fromkeys([address, *chain(*nodes), *self._seeds]))
            break
        self._fresh_until = time.monotonic() + REFRESH_S

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class SlotPool:
    """The connections to the node that has one slot, whichever that is when one is asked for; raises NotSent."""

    def __init__(self, nodes: Nodes, slot: int) -> None:
        self._nodes = nodes
        self._slot = slot

    def node(self) -> Pool:
        """The connections to that node, for all slots that it has."""
        return self._nodes.pool_of(self._slot)

    def get_connection(self, *_: Any, **__: Any) -> Any:
        pool = self.node()
        connection = pool.get_connection()
        connection.home = pool
        return connection

    def release(self, connection: Any) -> None:
        connection.home.release(connection)

    def __getattr__(self, name: str) -> Any:  # settings, which are those of every node
        return getattr(self._nodes.any_pool(), name)


class ClusterClient(redis.Redis):
    """Sends each command to the node that has its keys; those without a key to one and the same node."""

    def __init__(self, nodes: Nodes, replicas: int = 0) -> None:
        super().__init__(connection_pool=SlotPool(nodes, 0))  # type: ignore[arg-type]
        self.nodes, self.replicas = nodes, replicas
        self._clients: dict[int, ReplicatedClient] = {}

    def for_slot(self, slot: int) -> ReplicatedClient:
        """The client for all keys in one hash slot, over the same connections."""
        if slot not in self._clients:
            client = ReplicatedClient(connection_pool=SlotPool(self.nodes, slot))  # type: ignore[arg-type]
            client.replicas = self.replicas
            self._clients[slot] = client
        return self._clients[slot]

    def execute_command(self, *command: Any, **options: Any) -> Any:
        if command[0] == "SCRIPT LOAD":
            return self._on_each_node(command)
        return self.for_slot(_slot_of(command)).execute_command(*command, **options)

    def _on_each_node(self, command: Sequence[Any]) -> Any:
        """The answer of a node that answers; raises the last error if none does."""
        answers, last = list[Any](), None
        for slot in self.nodes.first_slots():
            try:
                answers.append(self.for_slot(slot).execute_command(*command))
            except redis.RedisError as error:
                last = error
        if not answers:
            raise last or NotSent("no node of the Redis Cluster is known")
        return answers[0]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        return _RoutedPipeline(self, transaction)

    def close(self) -> None:
        """Close the connections to all nodes."""
        self.nodes.close()


def _slot_of(command: Sequence[Any]) -> int:
    """The hash slot of its first key; 0 if it has none."""
    place = 3 if command[0] in SCRIPTS else 1
    return key_slot(str(command[place]).encode()) if len(command) > place else 0


class _RoutedPipeline(Pipeline):
    """Commands in one transaction for each hash slot: more than one slot Redis takes into none.

    All that follow a WATCH go to the node of its key.
    """

    def __init__(self, client: ClusterClient, transaction: bool) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._client = client

    def execute_command(self, *command: Any, **options: Any) -> Any:
        if not self.connection and not self.command_stack:
            self.connection_pool = self._client.for_slot(_slot_of(command)).connection_pool
        return super().execute_command(*command, **options)  # type: ignore[no-untyped-call]

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack = self.command_stack
        slots = [_slot_of(command) for command, _ in stack]
        if self.watching or len(set(slots)) < 2:
            return super().execute(raise_on_error)
        self.reset()
        answers: dict[int, Any] = {}
        for slot in dict.fromkeys(slots):
            here = [place for place, each in enumerate(slots) if each == slot]
            pipe = self._client.for_slot(slot).pipeline(self.transaction)
            for place in here:
                command, options = stack[place]
                pipe.execute_command(*command, **options)  # type: ignore[no-untyped-call]
            answers |= zip(here, pipe.execute(raise_on_error), strict=True)
        return [answers[place] for place in range(len(stack))]
