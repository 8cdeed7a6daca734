"""The client of Redis: every call has a deadline, and nothing is ever sent twice.

redis-py repeats a command whose answer was lost, ten times where ``Redis(...)`` makes the pool. It cannot know whether
the first one was executed: repeating an ``RPUSH`` or the commit of a purchase would sell an item twice. Here a lost
answer is an error, and the shop tells the buyer that the purchase is in doubt.

A cluster has a client for each hash tag, a plain `redis.Redis` at the node that has its slot just now: redis-py's
RedisCluster connects when it is made, repeats what was not answered, and takes no script into a pipeline. Which node
has which slot is asked once a second by the command that comes then. So a failover or a slot that moves is followed
within a second; until then, and while a slot has no node, commands fail as without Redis.

A master answers before its replicas have what was written. If it is lost then, so is the order that a buyer has heard
of. A client with `replicas` has each script followed by ``WAIT`` on the same connection, and takes an answer that too
few replicas stand behind for a lost one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import DefaultParser
from redis.crc import key_slot
from redis.retry import Retry

TIMEOUT = 2.0
CONNECT_TIMEOUT = 1.0
REFRESH_S = 1.0
WAIT_MS = 500  # for the replicas; less than the time for an answer
REFUSAL = re.compile(
    r"(?:EXECABORT .*: )?"
    r"((?:READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|BUSY|MOVED|ASK|TRYAGAIN|CLUSTERDOWN) .*?)(?: script: .*)?"
)


class NotSent(redis.ConnectionError):
    """There was no connection to Redis, so the command was surely not executed."""


class Refused(redis.ResponseError):
    """Redis is read-only, full or busy, cannot save, or does not have the slot now, and has written nothing.

    A script is refused at its first write or not at all, and of a transaction either everything is executed or nothing.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self._said = said

    def __str__(self) -> str:  # not the arguments: redis-py writes the whole command of a pipeline into them
        return f"Redis refused: {self._said}"


class Parser(DefaultParser):  # type: ignore[misc, valid-type]
    """Knows a refusal, also as EXEC or a script tells it."""

    @classmethod
    def parse_error(cls, response: str) -> Exception:
        if found := REFUSAL.fullmatch(response):
            return Refused(found[1])
        if "unauthenticated" in response:  # what Redis says of a long command before the login
            return redis.AuthenticationError(response)
        error: Exception = super().parse_error(response)
        return error


class Pool(redis.BlockingConnectionPool):
    """A pool that tells "no connection" from "no answer"; a stale connection is replaced before anything is sent."""

    def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        """A connection that is open.

        Raises:
            AuthenticationError: Redis does not know the user.
            NotSent: Redis cannot be reached, or no connection became free in time.
        """
        try:
            return super().get_connection(*args, **kwargs)  # type: ignore[no-untyped-call]
        except redis.AuthenticationError:
            raise
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise NotSent(str(error)) from error


class Client(redis.Redis):
    """Of one Redis, or of the node that has the keys with one hash tag.

    Attributes:
        replicas: that must have what a script wrote, before its answer counts.
    """

    replicas = 0

    def execute_command(self, *command: Any, **options: Any) -> Any:
        """As redis-py's; of a script as `execute_together`."""
        if self.replicas and command[0] in ("EVALSHA", "EVAL"):
            return self.execute_together(command)[0]
        return super().execute_command(*command, **options)  # type: ignore[no-untyped-call]

    def execute_together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send these in one trip; the answers.

        Raises:
            TimeoutError: everything was executed, but too few replicas have it, so it may be lost with its node.
        """
        with self.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]
            if self.replicas:
                pipe.wait(self.replicas, WAIT_MS)
            answers = pipe.execute()
        if self.replicas and (copies := answers.pop()) < self.replicas:
            raise redis.TimeoutError(f"{copies} of {self.replicas} replicas have it after {WAIT_MS} ms")
        return answers


def connect(url: str, *, connections: int, timeout: float = TIMEOUT, replicas: int = 0) -> Client:
    """A client of the Redis at `url`; nothing is sent before its first command.

    Args:
        url: ``redis://`` or ``rediss://``; or of some nodes of a cluster
            ``redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT[?OPTIONS]``. Then use `client_for`.
        connections: most connections at once, to each node; one for each thread that uses the client.
        timeout: seconds until a command without an answer fails.
        replicas: as of `Client`.
    """

    def make_pool(url: str) -> Pool:
        return Pool.from_url(
            url,
            max_connections=connections,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=min(timeout, CONNECT_TIMEOUT),
            # No supported errors at all: redis-py would turn a lost EXEC into a WatchError, which asks for a retry.
            retry=Retry(NoBackoff(), 0, supported_errors=()),
            parser_class=Parser,
            decode_responses=True,
            # RESP 2 and no CLIENT SETINFO: a new connection is usable without a round trip.
            protocol=2,
            driver_info=None,
        )

    scheme, is_cluster, rest = url.partition("+cluster://")
    if not is_cluster:
        client = Client(connection_pool=make_pool(url))
        client.replicas = replicas
        return client
    place, _, options = rest.partition("?")
    login, at, seeds = place.rpartition("@")
    nodes = Nodes(seeds.split(","), lambda address: make_pool(f"{scheme}://{login}{at}{address}?{options}"))
    return ClusterClient(nodes, "", replicas)


def client_for(client: Client, tag: str) -> Client:
    """The client for all keys with this hash tag, over the same connections: the same one unless it is of a cluster."""
    return ClusterClient(client.nodes, tag, client.replicas) if isinstance(client, ClusterClient) else client


def warm_up(client: Client) -> None:
    """Open all connections to its node now, so that the first buyers of a rush do not wait for them.

    Raises:
        NotSent: Redis cannot be reached.
    """
    pool = client.connection_pool
    with ExitStack() as opened:
        for _ in range(pool.max_connections):
            opened.callback(pool.release, pool.get_connection())


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

    def get_connection(self, *_: Any, **__: Any) -> Any:
        pool = self._nodes.pool_of(self._slot)
        connection = pool.get_connection()
        connection.home = pool
        return connection

    def release(self, connection: Any) -> None:
        connection.home.release(connection)

    def __getattr__(self, name: str) -> Any:  # settings, which are those of every node
        return getattr(self._nodes.pool_at(self._nodes._known[0]), name)


class ClusterClient(Client):
    """The client for all keys with one hash tag."""

    def __init__(self, nodes: Nodes, tag: str, replicas: int) -> None:
        super().__init__(connection_pool=SlotPool(nodes, key_slot(tag.encode())))  # type: ignore[arg-type]
        self.nodes, self.replicas = nodes, replicas

    def close(self) -> None:
        """Close the connections to all nodes, which the clients for other tags share."""
        self.nodes.close()
