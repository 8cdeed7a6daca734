"""etcd and Redis of a world: what is in them, what expires there, and how much they were asked."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import redis

from app.contract.keys import Keys, queue_name
from app.contract.orders import Order
from labs.steps.schedules.instances import TTL_S
from labs.steps.wire import wire
from loadtest.shop_client.sale import SaleClient
from loadtest.stack.process import Resource, ServerError
from loadtest.stack.servers import Etcd, Redis
from lock import Contender, KeyValue, LockError, connect

SALE = "schedules"
KEYS = Keys(SALE)
PREVIOUS = {KEYS.previous, KEYS.previous_orders}
OF_THE_SALE = {KEYS.initial, KEYS.stock, KEYS.lucky, KEYS.orders, KEYS.fence, KEYS.generation, KEYS.answers, *PREVIOUS}
OPENED = f"sale/{SALE}/opened"
FIRST_REVISION = 1000  # so that a token is no small number of another kind
RUN = 500  # revisions of etcd that a run makes at most
KEEP_ALIVE_S = 0.5
ServerKeys = dict[str, tuple["str | frozenset[str]", int]]
# Each key with its type, whether it expires, and its value. What expires soon lives as long as all others. A small hash
# or set is a list: it is read in the order in which it was filled.
LOOK = """
local read = {
  string = function(name) return redis.call('GET', name) end,
  list = function(name) return redis.call('LRANGE', name, 0, -1) end,
  hash = function(name) return redis.call('HGETALL', name) end,
  set = function(name) return redis.call('SMEMBERS', name) end,
  zset = function(name) return redis.call('ZRANGE', name, 0, -1, 'WITHSCORES') end,
  stream = function(name) return redis.call('XRANGE', name, '-', '+') end,
}
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  local kind, left = redis.call('TYPE', name).ok, redis.call('PTTL', name)
  local value, encoding = read[kind](name), redis.call('OBJECT', 'ENCODING', name)
  if left > 0 and left < ARGV[1] / 2 then redis.call('PEXPIRE', name, ARGV[1]) end
  if kind ~= 'zset' and (encoding == 'listpack' or encoding == 'ziplist') then kind = 'list' end
  table.insert(found, {name, kind, left > 0 and 1 or 0, value})
end
return found
"""
FORGET = """
local kept = {}
for _, name in ipairs(ARGV) do kept[name] = true end
for _, name in ipairs(redis.call('KEYS', '*')) do
  if not kept[name] then redis.call('DEL', name) end
end
"""
_STARTED = re.compile(rb'^grpc_server_started_total\{.*grpc_type="unary"\} (\S+)', re.MULTILINE)


class ForgetfulEtcd(Etcd):
    """Does not wait for the disk: nothing in a world outlives its etcd."""

    def command(self) -> list[str]:
        return [*super().command(), "--unsafe-no-fsync"]


class Servers(Resource):
    """One etcd and one Redis."""

    def __init__(self, directory: Path) -> None:
        self.etcd, self.redis = ForgetfulEtcd(directory), Redis(directory)
        self.contenders: list[Contender] = []  # of the mutex, as they were seen last
        self.revision = 0  # etcd's
        self.leases: list[int] = []  # that purchases have granted themselves; those are kept alive
        self._kept_alive = 0.0
        self._open = ExitStack()

    def launch(self) -> None:
        for process in (self.etcd, self.redis):
            process.launch()

    def start(self) -> None:
        """Wait until they answer, and connect; raises ServerError."""
        for process in (self.etcd, self.redis):
            process.wait_ready()
        wire.redis, wire.etcd = {self.redis.port}, {self.etcd.port}
        wire.wrap()
        self.client = self._open.enter_context(connect(self.etcd.endpoint))
        sale = SaleClient([], redis_url=self.redis.url, etcd=self.etcd.endpoint, name=SALE)
        self._sale = self._open.enter_context(closing(sale))
        self._redis: Any = redis.Redis.from_url(
            self.redis.url, decode_responses=True, encoding_errors="backslashreplace"
        )
        self._open.callback(self._redis.close)
        self._forget_keys = self._redis.register_script(FORGET)
        self._look = self._redis.register_script(LOOK)
        for number in range(FIRST_REVISION):  # etcd counts its writes
            self.client.put("first", str(number))

    def stop(self) -> None:
        """Kill both: nothing in here is to be kept."""
        self._open.close()
        for process in (self.redis, self.etcd):
            process.kill()

    def forget(self) -> None:
        """Nothing is left but what the shop keeps of its sale."""
        self._forget_keys(args=sorted(OF_THE_SALE))
        for lease in [*self.leases]:
            self.revoke(lease)
        for kv in self._in_etcd():
            if kv.key != OPENED:
                self.client.delete(kv.key)

    def ledger(self) -> tuple[list[Order], int]:
        """All orders, and what the counter says; raises SaleError."""
        entries, left = self._sale.ledger()
        return list(entries), left

    def look(self) -> ServerKeys:
        """Each key of Redis and of etcd, with its value and whether it ends by itself; in etcd, by its lease."""
        found: ServerKeys = {}
        for name, kind, expires, value in sorted(self._look(args=[TTL_S * 1000])):
            if name not in PREVIOUS:
                found[f"redis {name}"] = (_comparable(kind, value), expires)
        self.contenders = []
        for kv in self._in_etcd():
            if kv.key.startswith(f"{queue_name(SALE)}/"):
                self.contenders.append(Contender.of(kv))
            if kv.key != OPENED:
                found[f"etcd {kv.key}"] = (f"{kv.create_revision} {kv.value.decode(errors='replace')}", kv.lease_id)
        return found

    def begin_revisions(self, taken: set[int]) -> int:
        """etcd's revision, from which on there is no number of another kind."""
        while any(self.revision <= number < self.revision + RUN for number in taken):
            for number in range(RUN):
                self.client.put("first", str(number))
            self.client.delete("first")
            self.revision += RUN + 1
        return self.revision

    def _in_etcd(self) -> Sequence[KeyValue]:
        try:
            found = self.client.get_prefix("")
        except LockError as error:
            raise ServerError(f"etcd does not answer: {error}") from error
        self.revision = found.revision
        return found.keys

    def dirty(self) -> set[int]:
        """The ports of connections to Redis of which a watched key was changed."""
        found = self._redis.client_list()
        return {int(each["addr"].rpartition(":")[2]) for each in found if "d" in each["flags"]}

    # Time

    def keep_alive(self) -> None:
        """Time stands still: leases of purchases do not end."""
        if self.leases and time.monotonic() > self._kept_alive + KEEP_ALIVE_S:
            for lease in self.leases:
                self.client.keep_alive(lease)
            self._kept_alive = time.monotonic()

    def delete(self, name: str) -> None:
        """A key of Redis has expired."""
        self._redis.delete(name)

    def revoke(self, lease: int) -> None:
        """A lease of etcd has ended."""
        if lease in self.leases:
            self.leases.remove(lease)
        self.client.revoke(lease)

    # How much they were asked

    def asked(self) -> tuple[int, int]:
        """Bytes that came to Redis, and requests that came to etcd."""
        read = self._redis.info("stats")["total_net_input_bytes"]
        with urllib.request.urlopen(f"http://{self.etcd.endpoint}/metrics", timeout=5.0) as response:
            return int(read), int(sum(map(float, _STARTED.findall(response.read()))))

    def last_commands(self) -> list[str]:
        """Of each connection to Redis that is not this process's, what it has sent last and from where."""
        clients = self._redis.client_list()
        return [f"{each['cmd']} from {each['addr']}" for each in clients if each["cmd"] not in ("NULL", "client|list")]


def _comparable(kind: str, value: Any) -> str | frozenset[str]:
    """A set for what Redis keeps in no order, or in that of its values."""
    if kind == "hash":
        return frozenset(f"{name}: {each}" for name, each in zip(value[::2], value[1::2], strict=True))
    if kind == "zset":
        return frozenset(f"{name}: {score}" for name, score in zip(value[::2], value[1::2], strict=True))
    return frozenset(value) if kind == "set" else str(value)
