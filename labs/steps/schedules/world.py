"""The world of a schedule: etcd, Redis, and two instances whose purchases go on only when told so.

After each step the world is settled: every purchase stands at a point, is over, or is proven to wait. That is looked
up, and never guessed by a sleep. A purchase waits if

- its key in etcd is behind the one of a purchase that stands,
- the Redis lock has the value that it has had since a purchase came in, which stands,
- it is behind another purchase of its instance in a commit queue or a cohort, or
- it polls, and has tried once more, in vain, since all others stand.
"""

from __future__ import annotations

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
from app.contract.orders import Token
from app.contract.outcomes import Outcome
from app.contract.section_log import GuardSource, SectionTail
from labs.steps.schedules.instances import TTL_S, Hatchery, SteppedInstance
from loadtest.results.answer import Answer
from loadtest.results.entry import Entry
from loadtest.results.record import CriticalSection
from loadtest.shop_client.sale import SaleClient
from loadtest.stack.process import Resource, ServerError
from loadtest.stack.proxy import ANSWERS, Proxy
from loadtest.stack.servers import Etcd, Redis
from lock import Contender, LockError, connect

SALE = "schedules"
BUYERS = "ABCD"
INSTANCES = 2
SETTLE_S = 5.0
LOOK_S = 0.002
INSIDE = ("locked", "read", "think", "write", "left")
AGAIN = 2  # attempts of a wait that polls: the first of them may have begun before all others stood


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
    attempts: int = 0
    queued: bool = False
    token: Token | None = None
    outcome: str | None = None
    order: str | None = None
    in_doubt: bool = False
    detail: str = ""
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

    def answer(self) -> Answer:
        """What its buyer was told; after the death of the instance, nothing."""
        outcome = Outcome.ERROR if self.is_dead or self.outcome is None else Outcome(self.outcome)
        return Answer(
            self.buyer,
            outcome,
            self.instance.name,
            self.order if outcome is Outcome.SOLD else None,
            self.in_doubt or outcome is Outcome.ERROR,
            self.sent_ms or 0.0,
            self.answered_ms,
            token=self.token,
            status=0 if outcome is Outcome.ERROR else 200,
        )


@dataclass
class World(Resource):
    """The servers, and the instances of one exploration.

    Args:
        directory: for data and logs.
        items: for sale.
        buyers: how many purchases; each of the instances takes them in turn.
        modules: are imported by each instance; they may add guards to `app.guards.guards`.
    """

    directory: Path
    items: int = 1
    buyers: int = 2
    modules: Sequence[str] = ()
    purchases: list[Stepped] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.etcd = Etcd(self.directory)
        self.redis = Redis(self.directory)
        self._directory_of_sections = self.directory / "section-log"
        self._environment = {
            "FLASHSALE_ETCD_ENDPOINTS": self.etcd.endpoint,
            "FLASHSALE_SALE": SALE,
            "FLASHSALE_LEASE_TTL": str(TTL_S),
            "FLASHSALE_LOCK_TIMEOUT": str(TTL_S),
            "FLASHSALE_SECTION_LOG": str(self._directory_of_sections),
            "FLASHSALE_HOST": "127.0.0.1",
        }
        self._hatchery = Hatchery(self.directory, self._environment, self.modules)
        self._instances: list[SteppedInstance] = []
        self._spare: SteppedInstance | None = None
        self._lock_values: dict[str, Stepped] = {}
        self._open = ExitStack()
        self._is_proxied = False
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
        self._sections = SectionTail(self._directory_of_sections)
        self._instances = [self._instance().ready() for _ in range(INSTANCES)]

    def stop(self) -> None:
        """Kill everything: nothing in here is to be kept."""
        for instance in [*self._instances, *filter(None, [self._spare])]:
            instance.kill()
        self._open.close()
        for process in (self._hatchery, self.redis, self.etcd):
            process.kill()

    @contextmanager
    def proxied(self) -> Iterator[None]:
        """Inside, a proxy stands between each instance and Redis, so that an answer can be lost."""
        self._renew(is_proxied=True)
        try:
            yield
        finally:
            self._renew(is_proxied=False)

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
        """A new sale, and purchases that stand before the guard; raises ServerError."""
        for number, instance in enumerate(self._instances):
            if any(each.is_dead for each in self.purchases if each.instance is instance):
                self._instances[number] = self._next_instance()
            else:
                if instance.frozen:
                    instance.thaw()
                instance.ask("end")
        self._instances[0].ask("reset", self.items)
        self._lock_values.clear()
        self._sections.poll()
        self.clock = Start.now()
        homes = [self._instances[number % INSTANCES] for number in range(self.buyers)]
        self.purchases = [
            Stepped(buyer, home, home.ask("add", guard, buyer)) for buyer, home in zip(BUYERS, homes, strict=False)
        ]

    def step(self, buyer: str) -> None:
        """Let a purchase go on to its next point; one that is frozen is thawed."""
        purchase = self.purchase(buyer)
        purchase.sent_ms = purchase.sent_ms or time.time() * 1000
        purchase.stands = False
        if purchase.instance.frozen:
            purchase.instance.thaw(buyer)
        else:
            self._take(purchase.instance.ask("step", buyer, LOOK_S))
        self._settle()

    def pause(self, buyer: str) -> None:
        """Freeze the purchase and all of its instance beyond its lease; `step` thaws it."""
        instance = self.purchase(buyer).instance
        instance.freeze()
        self._end_leases(instance)
        self._settle()

    def kill(self, buyer: str) -> None:
        """Kill -9 of its instance, whose lease ends."""
        instance = self.purchase(buyer).instance
        for purchase in self.purchases:
            if purchase.instance is instance and not purchase.is_over:
                purchase.is_dead, purchase.stands, purchase.answered_ms = True, False, time.time() * 1000
        instance.kill()
        self._end_leases(instance)
        self._settle()

    def lose_answer(self, buyer: str) -> None:
        """`step`, and Redis does what it asks for, and the answer is lost."""
        purchase = self.purchase(buyer)
        proxy = purchase.instance.proxy
        assert proxy is not None
        proxy.stall(ANSWERS)
        purchase.stands = False
        purchase.instance.ask("go", buyer)
        until = time.monotonic() + SETTLE_S
        while not proxy.held_back(ANSWERS):
            if time.monotonic() > until:
                raise Unsettled(f"{buyer} sent no write within {SETTLE_S:g} s")
            time.sleep(LOOK_S / 4)
        proxy.reset()
        proxy.resume()
        self._settle()

    def purchase(self, buyer: str) -> Stepped:
        return next(each for each in self.purchases if each.buyer == buyer)

    def ledger(self) -> tuple[list[Entry], int]:
        """The orders, and what the counter says; raises SaleError."""
        return self._sale.ledger()

    def sections(self) -> list[CriticalSection]:
        """Those since `reset`, or since the last call."""
        return [CriticalSection.of(each, self.clock) for each in self._sections.poll()]

    def source(self, guard: str) -> GuardSource | None:
        return GuardSource.kept(self._directory_of_sections, guard)

    # Settling

    def _settle(self) -> None:
        until, baseline = time.monotonic() + SETTLE_S, dict[str, int]()
        while moving := self._look():
            if baseline.keys() != {each.buyer for each in moving}:  # one more stands: it is a new world
                baseline = {each.buyer: each.attempts for each in moving}
            if self._all_wait(moving, baseline):
                break
            if time.monotonic() > until:
                raise Unsettled(
                    f"{moving[0].buyer} came to no point within {SETTLE_S:g} s and is in {self._where(moving[0])}. "
                    "A guard that waits by itself has to call self.sessions.check_open() several times a second."
                )
        for each in self.purchases:
            each.waits = each in moving
        self._note_lock_value()

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

    def _all_wait(self, moving: Sequence[Stepped], baseline: Mapping[str, int]) -> bool:
        if not any(each.stands for each in self.purchases):
            return False
        unproven = [each for each in moving if each.attempts - baseline[each.buyer] < AGAIN]
        unproven = [each for each in unproven if not self._is_queued_locally(each)]
        if unproven and self._redis_lock_is_held():
            unproven = []
        if unproven:
            behind = self._behind_in_etcd()
            unproven = [each for each in unproven if each.id not in behind]
        return not unproven

    def _is_queued_locally(self, purchase: Stepped) -> bool:
        others = (each for each in self.purchases if each.instance is purchase.instance and each is not purchase)
        return purchase.queued and any(each.is_inside for each in others)

    def _redis_lock_is_held(self) -> bool:
        """Whether the lock has the value with which a purchase came in that stands inside."""
        value = self._redis.get(Keys(SALE).lock)
        holder = self._lock_values.get(value) if value else None
        return holder is not None and holder.is_inside and not holder.is_dead

    def _note_lock_value(self) -> None:
        inside = [each for each in self.purchases if each.is_inside]
        if len(inside) == 1 and inside[0].point == "locked" and (value := self._redis.get(Keys(SALE).lock)):
            self._lock_values.setdefault(value, inside[0])

    def _behind_in_etcd(self) -> set[str]:
        """The ids of purchases whose keys are behind the key of a purchase that stands."""
        first, *others = [_thread_of(each.owner) for each, _ in self._queue()] or [""]
        standing = {each.id for each in self.purchases if each.is_inside}
        return set(others) if first in standing else set()

    def _queue(self) -> list[tuple[Contender, int]]:
        """The queue of the mutex, and the leases of its keys."""
        try:
            keys = self._etcd.get_prefix(f"{queue_name(SALE)}/").keys
        except LockError as error:
            raise ServerError(f"etcd does not answer: {error}") from error
        return [(Contender.of(kv), kv.lease_id) for kv in keys]

    # Faults

    def _end_leases(self, instance: SteppedInstance) -> None:
        """What so much time does: the instance's lease in etcd ends, and every key in Redis that has an expiry."""
        for lease in {lease for contender, lease in self._queue() if lease and contender.session == instance.name}:
            self._etcd.revoke(lease)
        for key in self._redis.scan_iter(count=1000):
            if self._redis.pttl(key) > 0:
                self._redis.delete(key)

    def _instance(self) -> SteppedInstance:
        proxy, url = None, self.redis.url
        if self._is_proxied:
            proxy = Proxy(f"127.0.0.1:{self.redis.port}")
            proxy.start()
            url = f"redis://{proxy.endpoint}/0"
        name = f"shop-{next(self._numbers)}"
        return SteppedInstance(self._hatchery, name, {"FLASHSALE_REDIS_URL": url}, proxy)

    def _next_instance(self) -> SteppedInstance:
        spare, self._spare = self._spare, self._instance()
        return (spare or self._instance()).ready()

    def _renew(self, *, is_proxied: bool) -> None:
        for instance in self._instances:
            instance.kill()
            self._end_leases(instance)
        self._is_proxied, self.purchases = is_proxied, []
        self._instances = [self._instance().ready() for _ in range(INSTANCES)]


def _thread_of(owner: str) -> str:
    """The id of a stepped purchase in the owner of a key, see `labs.steps.shop`."""
    return owner.partition("thread steps-")[2].partition(")")[0]
