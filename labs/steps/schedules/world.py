"""The world of a schedule: etcd, Redis, and two instances whose purchases go on only when told so.

After each step the world is settled: every purchase stands, is over, or is proven to wait. That is looked up, and never
guessed by a sleep. A purchase waits if

- its key in etcd is behind the one of a purchase that stands, or of none, and its last answer was not lost,
- the Redis lock has the value that it has had since a purchase came in, which stands,
- it is behind another purchase of its instance in a commit queue or a cohort,
- it polls, and has tried once more, in vain, since all others stand, or
- it stands before an attempt, the one before was in vain, and nothing has changed since it began.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import redis

from app.contract.clock import Start
from app.contract.keys import Keys, queue_name
from app.contract.orders import Token, token_in
from app.contract.outcomes import Outcome
from app.contract.section_log import GuardSource, SectionTail
from labs.steps.schedules.instances import TTL_S, Hatchery, SteppedInstance, ask_together
from labs.steps.schedules.picture import Namer, Part
from labs.steps.shop import COMMANDS, POINTS
from labs.steps.wire import Fate, shop_scripts
from loadtest.results.answer import Answer
from loadtest.results.entry import Entry
from loadtest.results.record import CriticalSection
from loadtest.shop_client.sale import SaleClient
from loadtest.stack.apps import cpu_of
from loadtest.stack.process import Resource, ServerError
from loadtest.stack.servers import Etcd, Redis
from lock import Contender, KeyValue, LockError, connect

SALE = "schedules"
KEYS = Keys(SALE)
PREVIOUS = {KEYS.previous, KEYS.previous_orders}
OF_THE_SALE = {KEYS.initial, KEYS.stock, KEYS.lucky, KEYS.orders, KEYS.fence, KEYS.generation, KEYS.answers, *PREVIOUS}
OPENED = f"sale/{SALE}/opened"
BUYERS = "ABCD"
INSTANCES = 2
THREADS = 8  # of an instance, each with a connection to Redis
SETTLE_S = 5.0
LATE_S = 1.0  # a key that is still there so long after its purchase is over was left there
LOOK_S = 0.002
KEEP_ALIVE_S = 0.5
FIRST_REVISION = 1000  # so that a token is no small number of another kind
RUN = 500  # revisions of etcd that a run makes at most
ServerKeys = dict[str, tuple["str | frozenset[str]", int]]
# Each key with its type, whether it expires, and its value.
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
  local kind, expires = redis.call('TYPE', name).ok, redis.call('PTTL', name) > 0
  table.insert(found, {name, kind, expires and 1 or 0, read[kind](name)})
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
GRANTED = re.compile(r"> ID: (\d+) TTL: ")  # the answer to a LeaseGrant
PURCHASE = (  # the columns of `Shown.purchases`
    "point", "line", "command", "stands", "waits", "frozen",
    "dead", "token", "stock_read", "outcome", "stock", "detail",
)  # fmt: skip
INSIDE = ("locked", "read", "think", "write", "left")
AGAIN = 2  # attempts of a wait that polls: the first of them may have begun before all others stood


class ForgetfulEtcd(Etcd):
    """Does not wait for the disk: nothing in a world outlives its etcd."""

    def command(self) -> list[str]:
        return [*super().command(), "--unsafe-no-fsync"]


class Unsettled(ServerError):
    """A purchase neither came to a point nor was seen to wait: there is no verdict."""


@dataclass
class Stepped:
    """A purchase as it was seen last; times in milliseconds since the epoch."""

    buyer: str
    instance: SteppedInstance
    id: str
    point: str = "start"
    stands: bool = True
    stops: int = 1
    waits: bool = False
    is_dead: bool = False
    begins: bool = True  # an attempt
    in_vain: bool = False
    command: str = ""
    writes: bool = False
    etcd_writes: int = 0  # of its instance
    line: int | None = None
    stock_read: int | None = None
    stock_left: int | None = None
    sent: list[str] = field(default_factory=list)
    attempts: int = 0
    queued: bool = False
    token: Token | None = None
    outcome: str | None = None
    order: str = ""
    sold: str | None = None  # the order that its buyer was told of
    in_doubt: bool = False
    detail: str = ""
    failure: str = ""
    lease: str = ""  # of its instance's session, as it stands in keys
    sent_ms: float | None = None
    answered_ms: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.is_dead or self.point == "over"

    @property
    def is_settled(self) -> bool:
        return self.stands or self.is_over or self.instance.frozen

    @property
    def is_inside(self) -> bool:
        return self.stands and self.point in INSIDE

    @property
    def is_in_doubt(self) -> bool:
        """Whether its last answer was lost, so that it soon sends once more."""
        return bool(self.sent) and self.sent[-1] == "> lost"

    @property
    def has_begun(self) -> bool:
        return self.stops > 1

    @property
    def can_step(self) -> bool:
        return self.stands and not self.is_dead and not self.waits

    def answer(self) -> Answer:
        """What its buyer was told; after the death of the instance, nothing."""
        outcome = Outcome.ERROR if self.is_dead or self.outcome is None else Outcome(self.outcome)
        return Answer(
            self.buyer,
            outcome,
            self.instance.name,
            self.sold if outcome is Outcome.SOLD else None,
            self.in_doubt or outcome is Outcome.ERROR,
            self.sent_ms or 0.0,
            self.answered_ms,
            token=self.token,
            status=0 if outcome is Outcome.ERROR else 200,
        )


@dataclass(frozen=True)
class Shown:
    """What the scheduler's page shows of a state; tokens are told by their order, from 1.

    Attributes:
        purchases: one row for each buyer, its columns are `PURCHASE`.
        queue: buyer and token of each key.
    """

    purchases: list[tuple[Any, ...]]
    stock: str
    orders: int
    fence: str | None
    queue: list[tuple[str, str | None]]


@dataclass
class World(Resource):
    """The servers, and the instances of one exploration.

    Args:
        directory: for data and logs.
        items: for sale.
        buyers: how many purchases; each of the instances takes them in turn.
        modules: are imported by each instance; they may add guards to `app.guards.guards`.
        grain: where purchases stop, see `labs.steps.shop`.
    """

    directory: Path
    items: int = 1
    buyers: int = 2
    modules: Sequence[str] = ()
    grain: str = COMMANDS
    purchases: list[Stepped] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.etcd = ForgetfulEtcd(self.directory)
        self.redis = Redis(self.directory)
        self._directory_of_sections = self.directory / "section-log"
        self._environment = {
            "FLASHSALE_ETCD_ENDPOINTS": self.etcd.endpoint,
            "FLASHSALE_SALE": SALE,
            "FLASHSALE_LEASE_TTL": str(TTL_S),
            "FLASHSALE_LOCK_TIMEOUT": str(TTL_S),
            "FLASHSALE_SECTION_LOG": str(self._directory_of_sections),
            "FLASHSALE_HOST": "127.0.0.1",
            "FLASHSALE_THREADS": str(THREADS),
        }
        self._hatchery = Hatchery(self.directory, self._environment, self.modules)
        self._instances: list[SteppedInstance] = []
        self._spare: SteppedInstance | None = None
        self._lock_values: dict[str, Stepped] = {}
        self._in_vain: dict[str, ServerKeys] = {}  # by buyer: the keys when its last attempt ended
        self._disturbed: set[str] = set()  # buyers: others have changed something since its attempt began
        self._keys: ServerKeys = {}
        self._owners: dict[str, SteppedInstance] = {}
        self._contenders: list[Contender] = []  # of the mutex
        self._kept: Sequence[KeyValue] = ()  # in etcd, after these requests
        self._etcd_writes: list[tuple[str, int]] | None = None
        self._leases: dict[int, SteppedInstance] = {}  # that purchases have granted themselves, by whom
        self._granted: set[int] = set()  # those, and such as have ended
        self._kept_alive = 0.0
        self._first_revision = self._revision = 0
        self._numbers_seen: set[int] = set()
        self._open = ExitStack()
        self._numbers = count(1)

    def start(self) -> None:
        """Start the servers; raises ServerError."""
        for process in (self.etcd, self.redis, self._hatchery):
            process.launch()
        for process in (self.etcd, self.redis, self._hatchery):
            process.wait_ready()
        self._etcd = self._open.enter_context(connect(self.etcd.endpoint))
        sale = SaleClient([], redis_url=self.redis.url, etcd=self.etcd.endpoint, name=SALE)
        self._sale = self._open.enter_context(closing(sale))
        self._redis: Any = redis.Redis.from_url(self.redis.url, decode_responses=True)
        self._open.callback(self._redis.close)
        self._watcher: Any = self._redis.connection_pool.make_connection()
        self._open.callback(self._watcher.disconnect)
        self._forget_keys = self._redis.register_script(FORGET)
        for script in shop_scripts().values():
            self._redis.script_load(script.text)  # else the first purchase sends one twice
        self._sections = SectionTail(self._directory_of_sections)
        for number in range(FIRST_REVISION):  # etcd counts its writes
            self._etcd.put("first", str(number))
        self._instances = [self._instance().ready() for _ in range(INSTANCES)]

    def stop(self) -> None:
        """Kill everything: nothing in here is to be kept."""
        for instance in [*self._instances, *filter(None, [self._spare])]:
            instance.kill()
        self._open.close()
        for process in (self._hatchery, self.redis, self.etcd):
            process.kill()

    @contextmanager
    def with_spare(self) -> Iterator[None]:
        """Inside, an instance that is killed is followed by another one at once."""
        self._spare = self._instance()
        try:
            yield
        finally:
            self._spare.kill()
            self._spare = None

    def reset(self, guard: str) -> None:
        """Nothing on the servers but a new sale, and purchases that stand before the guard; raises ServerError."""
        dead = [each.instance for each in self.purchases if each.is_dead]
        self._etcd_writes = None
        for instance in self._instances:
            if instance.frozen:
                instance.thaw()
        living = [each for each in self._instances if each not in dead]
        forgot = dict(zip(living, ask_together((each, "forget") for each in living), strict=True))
        for number, instance in enumerate(self._instances):
            if not forgot.get(instance):
                instance.kill()
                self._instances[number] = self._next_instance()
        self._forget_keys(args=sorted(OF_THE_SALE))
        for lease in self._leases:
            self._etcd.revoke(lease)
        for kv in self._in_etcd():
            if kv.key != OPENED:
                self._etcd.delete(kv.key)
        self._instances[0].ask("reset", self.items)
        self._look_at_servers()
        self._first_revision = self._begin_revisions()
        self._leases.clear()
        self._lock_values.clear()
        self._in_vain.clear()
        self._disturbed.clear()
        self._sections.poll()
        self.clock = Start.now()
        homes = [self._instances[number % INSTANCES] for number in range(self.buyers)]
        added = ask_together(
            (home, "add", guard, buyer, self.grain) for buyer, home in zip(BUYERS, homes, strict=False)
        )
        self.purchases = [Stepped(buyer, home, **seen) for buyer, home, seen in zip(BUYERS, homes, added, strict=False)]
        self._keys, self._owners = self._look_at_servers(), {}

    def step(self, buyer: str, *, loses_answer: bool = False) -> None:
        """Let a purchase go on to its next stop; one that is frozen is thawed."""
        purchase = self.purchase(buyer)
        purchase.sent_ms = purchase.sent_ms or time.time() * 1000
        purchase.stands = False
        if purchase.begins:
            self._disturbed.discard(buyer)
        if purchase.instance.frozen:
            purchase.instance.thaw(buyer)
        else:
            fate = Fate.LOST if loses_answer else Fate.ANSWERED
            self._take(purchase.instance.ask("step", buyer, LOOK_S, fate.value))
        self._settle(purchase)

    def pause(self, buyer: str) -> None:
        """Freeze the purchase and all of its instance beyond its lease; `step` thaws it."""
        instance = self.purchase(buyer).instance
        lease = instance.ask("lease")
        instance.freeze()
        self._end_leases(instance, lease)
        self._settle()

    def kill(self, buyer: str, *, behind_command: bool = False) -> None:
        """Kill -9 of its instance, at once or behind the purchase's next command; the instance's lease ends."""
        instance = self.purchase(buyer).instance
        lease = instance.ask("lease")
        self._etcd_writes = None  # its last ones are not told any more
        if behind_command:
            try:
                instance.ask("step", buyer, SETTLE_S, Fate.KILLED.value)
            except ServerError:  # it has ended
                pass
            else:
                raise Unsettled(f"{buyer} sent no command, so it was not killed behind it")
            self._note_change(self.purchase(buyer))
        for purchase in self.purchases:
            if purchase.instance is instance and not purchase.is_over:
                purchase.is_dead, purchase.stands, purchase.answered_ms = True, False, time.time() * 1000
        instance.kill()
        self._end_leases(instance, lease)
        self._settle()

    def purchase(self, buyer: str) -> Stepped:
        return next(each for each in self.purchases if each.buyer == buyer)

    def ledger(self) -> tuple[list[Entry], int]:
        """The orders of these purchases, and what the counter says; raises SaleError."""
        return self._sale.ledger()

    def sections(self) -> list[CriticalSection]:
        """Those since `reset`, or since the last call."""
        return [CriticalSection.of(each, self.clock) for each in self._sections.poll()]

    def source(self, guard: str) -> GuardSource | None:
        return GuardSource.kept(self._directory_of_sections, guard)

    # Settling

    def _settle(self, moved: Stepped | None = None) -> None:
        if self._leases and time.monotonic() > self._kept_alive + KEEP_ALIVE_S:
            for lease in self._leases:  # time stands still
                self._etcd.keep_alive(lease)
            self._kept_alive = time.monotonic()
        until, late, baseline = time.monotonic() + SETTLE_S, time.monotonic() + LATE_S, dict[str, int]()
        while moving := self._look():
            if baseline.keys() != {each.buyer for each in moving}:  # one more stands: it is a new world
                baseline = {each.buyer: each.attempts for each in moving}
            if self._all_wait(moving, baseline, is_late=time.monotonic() > late):
                moving = self._look()  # the line on which each waits
                break
            if time.monotonic() > until:
                raise Unsettled(
                    f"{moving[0].buyer} came to no point within {SETTLE_S:g} s and is in {self._where(moving[0])}. "
                    "A guard that waits by itself has to call self.sessions.check_open() several times a second."
                )
        self._note_change(moved)
        self._note_waits(moved, moving)
        if not any(each.can_step or each.instance.frozen for each in self.purchases) and self._let_time_pass():
            self._note_waits(None, moving)
        self._note_lock_value()

    def _note_waits(self, moved: Stepped | None, moving: Sequence[Stepped]) -> None:
        for each in self.purchases:
            if not (each.stands and each.in_vain) or (each is moved and each.buyer in self._disturbed):
                self._in_vain.pop(each.buyer, None)
            elif each is moved:
                self._in_vain[each.buyer] = self._keys
            elif self._in_vain.get(each.buyer) != self._keys:  # it may be worth another try, even if all is as before
                self._in_vain.pop(each.buyer, None)
            each.waits = each in moving or each.buyer in self._in_vain

    def _where(self, purchase: Stepped) -> str:
        return str(purchase.instance.ask("where", purchase.buyer))

    def _look(self) -> list[Stepped]:
        """Ask for all that move; those that still do."""
        moving = [each for each in self.purchases if not each.is_settled]
        for instance in {id(each.instance): each.instance for each in moving}.values():
            self._take(instance.ask("look", LOOK_S))
        return [each for each in moving if not each.is_settled]

    def _take(self, purchases: Mapping[str, Mapping[str, Any]]) -> None:
        for buyer, seen in purchases.items():
            purchase = self.purchase(buyer)
            was_over = purchase.is_over
            for name, value in seen.items():
                setattr(purchase, name, value)
            if purchase.is_over and not was_over:
                purchase.answered_ms = time.time() * 1000

    def _all_wait(self, moving: Sequence[Stepped], baseline: Mapping[str, int], *, is_late: bool) -> bool:
        if any(each.sent and not each.sent[-1].startswith("> ") for each in moving):
            return False  # an answer is still out
        unproven = [each for each in moving if each.attempts - baseline[each.buyer] < AGAIN]
        unproven = [each for each in unproven if not self._is_queued_locally(each)]
        if unproven and self.grain == POINTS and self._redis_lock_is_held():
            unproven = []
        if unproven:
            behind = self._behind_in_etcd(is_late=is_late)
            unproven = [each for each in unproven if each.id not in behind or (each.is_in_doubt and not is_late)]
        return not unproven

    def _is_queued_locally(self, purchase: Stepped) -> bool:
        others = (each for each in self.purchases if each.instance is purchase.instance and each is not purchase)
        return purchase.queued and any(each.stands and each.has_begun for each in others)

    def _redis_lock_is_held(self) -> bool:
        """Whether the lock has the value with which a purchase came in that stands inside."""
        value = self._redis.get(KEYS.lock)
        holder = self._lock_values.get(value) if value else None
        return holder is not None and holder.is_inside and not holder.is_dead

    def _note_lock_value(self) -> None:
        inside = [each for each in self.purchases if each.is_inside]
        if len(inside) == 1 and inside[0].point == "locked" and (value := self._redis.get(KEYS.lock)):
            self._lock_values.setdefault(value, inside[0])

    def _behind_in_etcd(self, *, is_late: bool) -> set[str]:
        """The ids of purchases whose keys are behind the key of a purchase that stands, or that has left it there."""
        self._look_at_servers()
        first, *others = [_thread_of(each.owner) for each in self._contenders] or [""]
        standing = {
            each.id for each in self.purchases if each.stands or each.instance.frozen or (is_late and each.is_over)
        }
        return set(others) if first in standing else set()

    def _begin_revisions(self) -> int:
        """etcd's revision, from which on there is no number of another kind that was seen, nor that of a process."""
        others = self._numbers_seen | {each.pid for each in self._instances}
        while any(self._revision <= number < self._revision + RUN for number in others):
            for number in range(RUN):
                self._etcd.put("first", str(number))
            self._etcd.delete("first")
            self._revision += RUN + 1
        return self._revision

    def _look_at_servers(self) -> ServerKeys:
        """Each key of Redis and of etcd, with its value and whether it ends by itself; in etcd, by its lease.

        Nobody has changed etcd if all purchases stand and their instances have sent it nothing that writes.
        """
        self._watcher.send_command("EVAL", LOOK, 0)
        writes = [(each.id, each.etcd_writes) for each in self.purchases]
        if writes != self._etcd_writes or not all(each.is_settled for each in self.purchases):
            self._kept, self._etcd_writes = self._in_etcd(), writes
        found: ServerKeys = {}
        for name, kind, expires, value in sorted(self._watcher.read_response()):
            if name not in PREVIOUS:
                found[f"redis {name}"] = (_comparable(kind, value), expires)
        self._contenders = []
        for kv in self._kept:
            if kv.key.startswith(f"{queue_name(SALE)}/"):
                self._contenders.append(Contender.of(kv))
            if kv.key != OPENED:
                found[f"etcd {kv.key}"] = (f"{kv.create_revision} {kv.value.decode(errors='replace')}", kv.lease_id)
        return found

    def _in_etcd(self) -> Sequence[KeyValue]:
        try:
            found = self._etcd.get_prefix("")
        except LockError as error:
            raise ServerError(f"etcd does not answer: {error}") from error
        self._revision = found.revision
        return found.keys

    def _note_change(self, purchase: Stepped | None) -> None:
        """Look at the servers: whom it disturbs, and whose instance has written each key that ends by itself."""
        before, self._keys = self._keys, self._look_at_servers()
        if self._keys != before:
            self._disturbed |= {each.buyer for each in self.purchases if each is not purchase}
        if purchase is None:
            return
        for name, value in self._keys.items():
            if value != before.get(name):
                self._owners[name] = purchase.instance
        for text in purchase.sent:
            if (granted := GRANTED.match(text)) and (lease := int(granted[1])) not in self._granted:
                self._granted.add(lease)
                self._leases[lease] = purchase.instance

    # Faults

    def _end_leases(self, instance: SteppedInstance, lease: int) -> None:
        """What so much time does: of this instance, every lease in etcd and every key in Redis that expires is gone."""
        ended = {name: ends for name, (_, ends) in self._keys.items() if ends and self._owners.get(name) is instance}
        leases = {ends for name, ends in ended.items() if name.startswith("etcd ")}
        for each in {lease, *leases, *(granted for granted, by in self._leases.items() if by is instance)} - {0}:
            self._revoke(each)
        for name in ended:
            if name.startswith("redis "):
                self._redis.delete(name.removeprefix("redis "))

    def _let_time_pass(self) -> bool:
        """All that is left to do is to wait: what expires, and is not kept alive, is gone then; whether anything is."""
        living = {each.instance for each in self.purchases if not each.is_dead}
        of_sessions = {each.ask("lease") for each in living}
        for name, (_, ends) in self._keys.items():
            kind, _, key = name.partition(" ")
            if kind == "redis" and ends:
                self._redis.delete(key)
            elif kind == "etcd" and ends not in of_sessions | {0}:
                self._revoke(ends)
        for lease in list(self._leases):
            self._revoke(lease)
        before, self._keys = self._keys, self._look_at_servers()
        return before != self._keys

    def _revoke(self, lease: int) -> None:
        self._leases.pop(lease, None)
        self._etcd.revoke(lease)
        self._etcd_writes = None

    # What is seen

    def data(self) -> ServerKeys:
        """What is in Redis."""
        return {name: value for name, value in self._keys.items() if name.startswith("redis ")}

    def picture(self) -> str:
        """Of the state, see `labs.steps.schedules.picture`."""
        return self._namer().picture()

    def _namer(self) -> Namer:
        names = {each.id: each.buyer for each in self.purchases}
        names |= {each.order: f"order {each.buyer}" for each in self.purchases if each.order}
        for place, each in enumerate(self.purchases):
            names[each.instance.name] = f"shop-{place % INSTANCES + 1}"
            names[str(each.instance.pid)] = f"process {place % INSTANCES + 1}"
            if each.lease not in ("", "0"):
                names[each.lease] = f"{each.lease}abcdef"  # an id, also if it has no letters
        purchases = [
            (each.buyer, "dead", each.token)
            if each.is_dead
            else (each.buyer, "over", each.token, each.outcome, each.sold, each.in_doubt, each.instance.frozen)
            if each.is_over
            else (
                each.buyer, each.point, each.stands and each.line, each.stands, each.waits, each.outcome,
                each.instance.frozen, each.token, not each.begins and each.buyer in self._disturbed,
                each.lease, sum(by is each.instance for by in self._leases.values()), "\n".join(each.sent),
            )
            for each in self.purchases
        ]  # fmt: skip
        parts, clocked = list[Part](map(str, purchases)), list[Part](each.command for each in self.purchases)
        for name, (value, ends) in self._keys.items():
            kind, _, key = name.partition(" ")
            of_guard = kind == "redis" and key not in OF_THE_SALE
            (clocked if of_guard else parts).extend([f"{name}, {'ends' if ends else 'stays'}", value])
        namer = Namer(parts, names, range(self._first_revision, self._revision + 1), clocked)
        self._numbers_seen |= namer.others
        return namer

    def shown(self) -> Shown:
        """What the scheduler's page shows of the state."""
        namer = self._namer()

        def told(token: Any) -> str | None:
            return (
                None
                if token is None
                else namer.shown(".".join(map(str, token if isinstance(token, (list, tuple)) else [token])))
            )

        stock, orders, fence = (
            str(self._keys.get(f"redis {name}", ("", 0))[0]) for name in (KEYS.stock, KEYS.orders, KEYS.fence)
        )
        return Shown(
            purchases=[
                (
                    each.point, each.line, namer.shown(each.command), each.stands and not each.is_dead, each.waits,
                    each.instance.frozen, each.is_dead, told(each.token), each.stock_read, each.outcome,
                    each.stock_left, namer.shown(each.detail),
                )
                for each in self.purchases
            ],
            stock=stock,
            orders=orders.count("'") // 2 if orders else 0,
            fence=told(token_in(fence)),
            queue=[(_buyer_of(each, self.purchases), told(each.token)) for each in self._contenders],
        )  # fmt: skip

    def _instance(self) -> SteppedInstance:
        number = next(self._numbers)
        settings = {"FLASHSALE_REDIS_URL": self.redis.url, **cpu_of(number % INSTANCES)}
        return SteppedInstance(self._hatchery, f"shop-{number}", settings)

    def _next_instance(self) -> SteppedInstance:
        spare, self._spare = self._spare, self._instance()
        return (spare or self._instance()).ready()


def _buyer_of(contender: Contender, purchases: Sequence[Stepped]) -> str:
    id = _thread_of(contender.owner)
    return next((each.buyer for each in purchases if each.id == id), "?")


def _comparable(kind: str, value: Any) -> str | frozenset[str]:
    """A set for what Redis keeps in no order, or, of a sorted set, in the order of names that are chance."""
    if kind == "hash":
        return frozenset(f"{name}: {each}" for name, each in zip(value[::2], value[1::2], strict=True))
    if kind == "zset":
        scores = sorted(set(map(float, value[1::2])))
        members = zip(value[::2], value[1::2], strict=True)
        return frozenset(f"{scores.index(float(score))}. {name}: {score}" for name, score in members)
    return frozenset(value) if kind == "set" else str(value)


def _thread_of(owner: str) -> str:
    """The id of a stepped purchase in the owner of a key, see `labs.steps.shop`."""
    return owner.partition("thread steps-")[2].partition(")")[0]
