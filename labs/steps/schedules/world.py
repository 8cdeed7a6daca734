"""The world of a schedule: etcd, Redis, and two instances whose purchases go on only when told so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from app.contract.clock import Start
from app.contract.orders import token_in
from app.contract.outcomes import Outcome
from app.contract.section_log import SectionTail
from labs.steps.guard_files import BrokenGuard, GuardFile
from labs.steps.schedules.fingerprint import CanonicalNames, Part
from labs.steps.schedules.folders import Folders
from labs.steps.schedules.instances import PASSED, TTL_S, ForkServer, InstanceLost, SteppedInstance, ask_together
from labs.steps.schedules.purchases import Shown, Stepped, Timeline
from labs.steps.schedules.quiescence import LIMIT_S, LOOK_S, NoVerdict, await_silent, can_nothing_move, quiesce
from labs.steps.schedules.seen import INSTEAD, UNORDERED, AllSeen
from labs.steps.schedules.servers import KEYS, SALE, ServerKeys, Servers
from labs.steps.stepped import COMMANDS
from labs.steps.wire import Fate, numbers_in, wire
from loadtest.results.answer import Answer
from loadtest.results.record import CriticalSection
from loadtest.stack.apps import cpu_of
from loadtest.stack.process import Resource

BUYERS = "ABCD"
INSTANCES = 2
PASSES_S = 2.0 * TTL_S  # while a lease ends; the patience of a purchase is longer
THREADS = 8  # of an instance, each with a connection to Redis
_GRANTED = re.compile(r"> \{'ID': '(\d+)', 'TTL': ")  # the answer to a LeaseGrant


class World(Resource):
    """The servers, and the instances of one exploration; `directory` is for data and logs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.items = 1  # for sale
        self.buyers = 2  # purchases, which the instances take in turn
        self.granularity = COMMANDS  # where purchases stop, see `labs.steps.stepped`
        self.forgets_attempts = True  # as it does not matter how often a purchase has tried in vain
        self.servers = Servers(directory)
        self._all_seen = AllSeen(self.servers, self._sent)
        self.purchases: list[Stepped] = []
        self.timeline = Timeline()
        self._passed: Any = numbers_in(directory / PASSED, "d", 1)  # seconds
        self._outwaited: set[str] = set()  # buyers that could but wait when nothing was left to expire
        self._folders = Folders(directory)
        self._sections_in = directory / "section-log"
        self._fork_server = ForkServer(directory, self._settings())
        self._instances: list[SteppedInstance] = []
        self._dead: list[memoryview] = []  # what instances that are gone have sent
        self._in_vain: dict[str, object] = {}  # by buyer: what was there when its last attempt ended
        self._disturbed: set[str] = set()  # buyers: others have changed something since its attempt began
        self._keys: ServerKeys = {}  # and files
        self._owners: dict[str, SteppedInstance] = {}
        self._granted: dict[int, tuple[SteppedInstance, int]] = {}  # leases of purchases: by whom, and the how many-eth
        self._leases: dict[SteppedInstance, dict[int, int]] = {}  # of sessions: the how many-eth of their instance
        self._first_revision = 0
        self._numbers_seen: set[int] = set()
        self._unordered: set[str] = set()  # what purchases of runs that are over have used that cannot be stopped
        self._numbers = count(1)

    def _settings(self) -> dict[str, str]:
        return {
            "FLASHSALE_ETCD_ENDPOINTS": self.servers.etcd.endpoint,
            "FLASHSALE_REDIS_URL": self.servers.redis.url,
            "FLASHSALE_SALE": SALE,
            "FLASHSALE_LEASE_TTL": str(TTL_S),
            "FLASHSALE_LOCK_TIMEOUT": str(TTL_S),
            "FLASHSALE_SECTION_LOG": str(self._sections_in),
            "FLASHSALE_HOST": "127.0.0.1",
            "FLASHSALE_THREADS": str(THREADS),
        }

    def start(self) -> None:
        """Start the servers; raises ServerError."""
        self._folders.empty()
        self.servers.launch()
        self._fork_server.launch()
        self.servers.start()
        self._fork_server.wait_ready()
        self._sections = SectionTail(self._sections_in)
        self._instances = [self._new_instance().ready() for _ in range(INSTANCES)]
        self._spare = self._new_instance()  # follows one that is killed at once

    def stop(self) -> None:
        """Kill everything: nothing in here is to be kept."""
        self._fork_server.kill()  # and with it the instances
        self.servers.stop()

    # A run

    def reset(self, guard: GuardFile) -> None:
        """Begin a new sale, with purchases that stand before a new guard; raises BrokenGuard or ServerError."""
        self._renew_instances()
        self.servers.forget()
        self._folders.empty()
        self._instances[0].ask("reset", self.items)
        told = [(each, "begin", guard, place) for place, each in enumerate(self._instances)]
        if broken := next(filter(None, ask_together(told)), ""):
            raise BrokenGuard(broken)
        for forgotten in (
            self._granted, self._leases, self._in_vain, self._disturbed, self._owners, self._outwaited
        ):  # fmt: skip
            forgotten.clear()
        self._passed[0] = 0.0
        self._sections.poll()
        self.clock, self.timeline = Start.now(), Timeline()
        homes = [self._instances[number % INSTANCES] for number in range(self.buyers)]
        added = ask_together(
            (home, "add", buyer, self.granularity, self.forgets_attempts)
            for buyer, home in zip(BUYERS, homes, strict=False)
        )
        self.purchases = [Stepped(buyer, home, **seen) for buyer, home, seen in zip(BUYERS, homes, added, strict=False)]
        self._keys = self._look()
        own = {number for each in self.purchases for number in (each.instance.pid, *each.names)}
        self._first_revision = self.servers.begin_revisions(self._numbers_seen | own)

    def _renew_instances(self) -> None:
        dead = [each.instance for each in self.purchases if each.is_dead]
        dead += [each for each in self._instances if each.is_lost]
        for instance in self._instances:
            if instance.frozen and not instance.is_lost:
                instance.thaw()
        living = [each for each in self._instances if each not in dead]
        forgot = dict(zip(living, ask_together((each, "forget") for each in living), strict=True))
        for _, unordered in forgot.values():
            self._unordered |= set(unordered)
        for number, instance in enumerate(self._instances):
            has_ended, unordered = forgot.get(instance, (False, []))
            if unordered or not has_ended:
                instance.kill(programs=bool(unordered))
                self._dead.append(instance.sent)
                self._instances[number], self._spare = self._spare.ready(), self._new_instance()

    def step(self, buyer: str, *, loses_answer: bool = False) -> None:
        """Let a purchase go on to its next stop; one that is frozen is thawed."""
        purchase = self.purchase(buyer)
        self.timeline.note("begins", buyer)
        purchase.stands = False
        if purchase.begins:
            self._disturbed.discard(buyer)
        if purchase.instance.frozen:
            purchase.instance.thaw(buyer)
        else:
            fate = Fate.LOST if loses_answer else Fate.ANSWERED
            self._take(purchase.instance.ask("step", buyer, LOOK_S, fate.value))
        self._quiesce(purchase)

    def tries_in_vain(self, buyer: str, times: int) -> bool:
        """Whether so many more attempts of a purchase go as the last one, if nobody else moves."""
        return bool(self.purchase(buyer).instance.ask("tries_in_vain", buyer, times))

    def pause(self, buyer: str) -> None:
        """Freeze the purchase and all of its instance beyond its lease; `step` thaws it."""
        instance = self.purchase(buyer).instance
        lease = instance.ask("lease")
        instance.freeze()
        self._end_leases(instance, lease)
        self._quiesce()

    def kill(self, buyer: str, *, behind_command: bool = False) -> None:
        """Kill -9 of its instance, at once or behind the purchase's next command; the instance's lease ends."""
        instance = self.purchase(buyer).instance
        lease = instance.ask("lease")
        if behind_command:
            with suppress(InstanceLost):  # as it is to be
                instance.ask("step", buyer, LIMIT_S, Fate.KILLED.value)
                raise NoVerdict(f"{buyer} sent no command, so it was not killed behind it")
            self._note_change(self.purchase(buyer))
        instance.kill()
        for purchase in self.purchases:
            if purchase.instance is instance:
                purchase.is_dead, purchase.stands = not purchase.is_answered, False
                self.timeline.note("over", purchase.buyer)
        self._end_leases(instance, lease)
        self._quiesce()

    def purchase(self, buyer: str) -> Stepped:
        return next(each for each in self.purchases if each.buyer == buyer)

    def begin_to_see_all(self) -> None:
        """What is sent from now on is to be seen, and what is used from now on; raises NoVerdict."""
        self._all_seen.begin()
        self._unordered.clear()

    def check_all_was_seen(self) -> None:
        """Raise NoVerdict if something was sent or used that no purchase was stepped for."""
        if unordered := self.unordered():
            raise NoVerdict(f"{UNORDERED}: a purchase uses {', '.join(sorted(unordered))}. {INSTEAD}")
        self._all_seen.check()

    def _sent(self) -> list[memoryview]:
        return [wire.sent, *self._dead, *(each.sent for each in (*self._instances, self._spare))]

    def unordered(self) -> set[str]:
        """What purchases have used that cannot be stopped."""
        dead = [each.instance for each in self.purchases if each.is_dead]
        for each in self._instances:
            if each.pid and not each.frozen and each not in dead:
                self._unordered |= set(each.ask("unordered"))
        return self._unordered

    # Quiescence

    def look_at_moving(self) -> list[Stepped]:
        """Ask for all that move; those that still do."""
        moving = [each for each in self.purchases if not each.is_quiescent]
        for instance in {id(each.instance): each.instance for each in moving}.values():
            self._take(instance.ask("look", LOOK_S))
        return [each for each in moving if not each.is_quiescent]

    def where(self, purchase: Stepped) -> str:
        return str(purchase.instance.ask("where", purchase.buyer))

    def behind_in_etcd(self, *, is_late: bool) -> set[str]:
        """The buyers whose keys are behind the key of a purchase that stands, or that has left it there."""
        self.servers.look()
        first, *others = [_thread_of(each.owner) for each in self.servers.contenders] or [""]
        standing = {
            each.buyer for each in self.purchases if each.stands or each.instance.frozen or (is_late and each.is_over)
        }
        return set(others) if first in standing else set()

    def first_in_etcd(self) -> str:
        """The buyer whose turn it was in etcd's queue when that was looked at last."""
        return next((_thread_of(each.owner) for each in self.servers.contenders), "")

    def _quiesce(self, moved: Stepped | None = None) -> None:
        self.servers.keep_alive()
        quiesce(self)
        for each in self.purchases:
            if each.is_answered:
                self.timeline.note("over", each.buyer)
        self._note_change(moved)
        self._note_waits(moved)
        if can_nothing_move(self.purchases) and self._let_time_pass():
            self._note_waits(None)
        if can_nothing_move(self.purchases) and await_silent(self):
            self._quiesce()

    def _note_waits(self, moved: Stepped | None) -> None:
        for each in self.purchases:
            if not (each.stands and each.in_vain) or (each is moved and each.buyer in self._disturbed):
                self._in_vain.pop(each.buyer, None)
            elif each is moved:
                self._in_vain[each.buyer] = self._keys, self._passed[0]
            elif self._in_vain.get(each.buyer) != (self._keys, self._passed[0]):  # it may be worth another try
                self._in_vain.pop(each.buyer, None)
            each.waits = bool(each.waits_for) or each.buyer in self._in_vain

    def _take(self, purchases: Mapping[str, Mapping[str, Any]]) -> None:
        for buyer, seen in purchases.items():
            for name, value in seen.items():
                setattr(self.purchase(buyer), name, value)
            self._leases_of(self.purchase(buyer).instance)

    def _note_change(self, purchase: Stepped | None) -> None:
        """Look at the servers: whom it disturbs, and whose instance has written each key that ends by itself."""
        before, self._keys = self._keys, self._look()
        if self._keys != before:
            self._disturbed |= {each.buyer for each in self.purchases if each is not purchase}
        if purchase is None:
            return
        for name, value in self._keys.items():
            if value != before.get(name):
                self._owners[name] = purchase.instance
        for text in purchase.sent:
            if (granted := _GRANTED.match(text)) and (lease := int(granted[1])) not in self._granted:
                self._granted[lease] = purchase.instance, len(self._granted) + 1
                self.servers.leases.append(lease)

    # Faults

    def _end_leases(self, instance: SteppedInstance, lease: int) -> None:
        """What so much time does: of this instance, every lease in etcd and every key in Redis that expires is gone."""
        self._passed[0] += PASSES_S
        ended = {name: ends for name, (_, ends) in self._keys.items() if ends and self._owners.get(name) is instance}
        leases = {ends for name, ends in ended.items() if name.startswith("etcd ")}
        for each in {lease, *leases, *(lease for lease in self.servers.leases if self._granted[lease][0] is instance)}:
            if each:
                self.servers.revoke(each)
        for name in ended:
            if name.startswith("redis "):
                self.servers.delete(name.removeprefix("redis "))

    def _let_time_pass(self) -> bool:
        """All that is left to do is to wait: what expires, and is not kept alive, is gone then; whether anything is.

        If nothing is, guards that look at the clock may do something else, once.
        """
        living = {each.instance for each in self.purchases if not each.is_dead}
        of_sessions = {each.ask("lease") for each in living}
        for name, (_, ends) in self._keys.items():
            kind, _, key = name.partition(" ")
            if kind == "redis" and ends:
                self.servers.delete(key)
            elif kind == "etcd" and ends not in of_sessions | {0}:
                self.servers.revoke(ends)
        for lease in list(self.servers.leases):
            self.servers.revoke(lease)
        before, self._keys = self._keys, self._look()
        waiting = {each.buyer for each in self.purchases if not each.is_over}
        if before != self._keys or self._outwaited or not waiting:
            return before != self._keys
        self._outwaited |= waiting
        self._passed[0] += PASSES_S
        return True

    def _look(self) -> ServerKeys:
        return {**self.servers.look(), **self._folders.contents()}

    # What is seen

    def waits_for_ever(self, purchase: Stepped) -> bool:
        """Whether nothing would have ended its wait but its own patience."""
        gives_up = purchase.buyer in self._outwaited and not (purchase.outcome and Outcome(purchase.outcome).is_served)
        return not purchase.is_over or (gives_up and not purchase.is_dead)

    def answers(self) -> list[Answer]:
        """What the buyers were told, with times that say who was over before who began, and nothing else."""
        return [each.answer(*self.timeline.times_ms(each.buyer)) for each in self.purchases]

    def sections(self) -> list[CriticalSection]:
        """Those since `reset`, or since the last call: for films, and not to judge by."""
        return [CriticalSection.of(each, self.clock) for each in self._sections.poll()]

    def data(self) -> ServerKeys:
        """What is in Redis."""
        return {name: value for name, value in self._keys.items() if name.startswith("redis ")}

    def fingerprint(self) -> str:
        """Of the state, see `labs.steps.schedules.fingerprint`."""
        names = self._canonical_names()
        self._numbers_seen |= names.others
        return names.fingerprint()

    def _canonical_names(self) -> CanonicalNames:
        names: dict[str, str] = {}
        for place, each in enumerate(self.purchases):
            number = place % INSTANCES + 1
            names |= {each.order: f"order {each.buyer}", each.instance.name: f"shop-{number}"}
            names |= {str(number_of): f"thread {each.buyer}" for number_of in each.names}
            names |= {str(each.instance.pid): f"process {number}"}
            for lease, nth in self._leases_of(each.instance).items():
                names |= dict.fromkeys((str(lease), f"{lease:x}"), f"lease {nth} of shop-{number}")
        for lease, (_, number) in self._granted.items():
            names |= dict.fromkeys((str(lease), f"{lease:x}"), f"lease {number}")
        for nothing in ("", "0"):
            names.pop(nothing, None)
        parts: list[Part] = [str(self.timeline), *map(self._told, self.purchases)]
        if self._passed[0]:
            clocks = [each.clocks for each in self.purchases]
            parts.append(f"{self._passed[0]:g} s later, seen {clocks}, in vain {sorted(self._outwaited)}")
        if any(each.watching for each in self.purchases):
            dirty = self.servers.dirty()
            parts += [f"an EXEC of {each.buyer} will fail" for each in self.purchases if dirty & {*each.watching}]
        for name, (value, ends) in self._keys.items():
            parts += [f"{name}, {'ends' if ends else 'stays'}", value]
        return CanonicalNames(parts, names, range(self._first_revision, self.servers.revision + 1))

    def _leases_of(self, instance: SteppedInstance) -> dict[int, int]:
        """Of its sessions in this run, by their order."""
        known = self._leases.setdefault(instance, {})
        for each in self.purchases:
            if each.instance is instance and each.lease:
                known.setdefault(each.lease, len(known) + 1)
        return known

    def _told(self, each: Stepped) -> str:
        """All that the future of a purchase depends on."""
        if each.is_dead:
            return str((each.buyer, "dead", each.token))
        answer = (each.outcome, each.sold, each.in_doubt, each.failure, each.instance.frozen, each.token)
        if each.is_over:
            return str((each.buyer, "over", *answer))
        granted = sum(self._granted[lease][0] is each.instance for lease in self.servers.leases)
        line = each.line if each.stands and not each.is_answered else None
        return str((
            each.buyer, each.point, line, each.stands, each.waits,
            *answer, not each.begins and each.buyer in self._disturbed, each.lease, granted, each.command,
            "\n".join(each.sent),
        ))  # fmt: skip

    def shown(self) -> Shown:
        """What the scheduler's page shows of the state."""
        names = self._canonical_names()

        def told(token: Any) -> str | None:
            parts = token if isinstance(token, (list, tuple)) else [token]
            return None if token is None else names.shown(".".join(map(str, parts)))

        stock, orders, fence = (
            str(self._keys.get(f"redis {name}", ("", 0))[0]) for name in (KEYS.stock, KEYS.orders, KEYS.fence)
        )
        return Shown(
            purchases=[
                (
                    each.point, each.line, names.shown(each.command), each.stands and not each.is_dead, each.waits,
                    each.instance.frozen, each.is_dead, told(each.token), each.stock_read, each.outcome,
                    each.stock, names.shown(each.detail or each.failure),
                )
                for each in self.purchases
            ],
            stock=stock,
            orders=orders.count("'") // 2 if orders else 0,
            fence=told(token_in(fence)),
            queue=[(_thread_of(each.owner) or "?", told(each.token)) for each in self.servers.contenders],
        )  # fmt: skip

    def _new_instance(self) -> SteppedInstance:
        number = next(self._numbers)
        return SteppedInstance(self._fork_server, f"shop-{number}", cpu_of(number % INSTANCES))


def _thread_of(owner: str) -> str:
    """The buyer of a stepped purchase in the owner of a key, see `labs.steps.stepped`."""
    return owner.partition("thread steps-")[2].partition(")")[0]
