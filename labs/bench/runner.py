"""One run of one case: reset, let the buyers click, count, judge."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import urlencode

import psutil

from labs.bench.clients import Click, ClientPool, without_garbage_collection
from labs.bench.meters import Meter
from labs.bench.result import Case, MeasuredRush, ResourceUsage
from labs.bench.suite import BARE, PINNED
from loadtest import REPOSITORY
from loadtest.ports import free_port
from loadtest.results.answer import Answer, wall_s
from loadtest.results.verdict import judge_rush
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import get_json
from loadtest.stack.apps import App, Instance
from loadtest.stack.process import ManagedProcess
from loadtest.stack.stack import Stack

_SALE = "demo"
# Of the instances, over what is exported for other commands.
STACK_SETTINGS = {
    "FLASHSALE_SALE": _SALE,
    "FLASHSALE_ADMIN_TOKEN": "",
    "FLASHSALE_ADMIN_TOKEN_FILE": "",
    "FLASHSALE_SECTION_LOG": "",
    "FLASHSALE_CPU": "",  # `Bench.place` chooses it for each case
}


class BareApp(App):
    """The bare Flask apps of `BARE`, with the settings of an instance."""

    def __init__(self, instance: Instance) -> None:
        port = free_port()
        super().__init__("bare", instance.directory, port, {**instance.env, "FLASHSALE_PORT": str(port)})

    def command(self) -> list[str]:
        config = str(REPOSITORY / "labs/bench/gunicorn.conf.py")
        return [sys.executable, "-m", "gunicorn", "-c", config, "labs.bench.bare:app"]


class Bench:
    """A running stack and what is needed to measure it."""

    def __init__(self, stack: Stack, *, bare: BareApp | None = None) -> None:
        self.stack, self.meter, self.bare = stack, Meter(stack, bare), bare
        self.sale = SaleClient(stack.urls, redis_url=stack.redis.url, etcd=stack.etcd.endpoint, name=_SALE)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.meter.close()
        self.sale.close()

    def run(self, case: Case) -> MeasuredRush:
        """One round; raises Unanswered and SaleError."""
        self.place(case.pinned)
        if case.guard in BARE:
            return self._run_bare(case)
        self.sale.reset(case.stock)
        for url in self.stack.urls:
            get_json(f"{url}/stock")  # as the board asks; an instance that does not know of the reset buys in two trips
        clicks = [buyer_click(case, number) for number in range(case.buyers)]
        answers, used = self._click(case, clicks, self.stack.urls[: case.instances])
        ledger, left = self.sale.ledger()
        verdict = judge_rush(stock=case.stock, stock_left=left, ledger=ledger, answers=answers)
        return MeasuredRush(wall_s(answers), answers, verdict.sentence, used)

    def place(self, pinned: bool) -> None:
        """Have each instance, and the bare app, run on one CPU from now on, or on all that this process may use."""
        if not PINNED:
            return
        usable = sorted(os.sched_getaffinity(0))
        for number, instance in [*enumerate(self.stack.instances), (0, self.bare)]:
            for thread in _threads_of(instance) if instance else ():
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.sched_setaffinity(thread, {usable[number % len(usable)]} if pinned else usable)

    def _run_bare(self, case: Case) -> MeasuredRush:
        assert self.bare is not None, "the part has no bare apps"
        clicks = [Click(f"buyer-{number}", BARE[case.guard]) for number in range(case.buyers)]
        answers, used = self._click(case, clicks, [self.bare.url])
        return MeasuredRush(wall_s(answers), answers, "", used)

    def _click(self, case: Case, clicks: Sequence[Click], urls: Sequence[str]) -> tuple[list[Answer], ResourceUsage]:
        with without_garbage_collection(), ClientPool(urls) as clients:
            clients.connect(case.connections or (int(case.rate / 5) if case.rate else len(clicks)))
            if case.connections:
                return self.meter.measure(lambda: clients.loop(clicks))
            if case.rate:
                return self.meter.measure(lambda: clients.stream(clicks, rate=case.rate))
            return self.meter.measure(lambda: clients.burst(clicks))


def _threads_of(process: ManagedProcess) -> Iterator[int]:
    """The threads of all its processes."""
    parent = psutil.Process(process.pid)
    for each in (parent, *parent.children(recursive=True)):
        yield from (thread.id for thread in each.threads())


def buyer_click(case: Case, number: int) -> Click:
    """What buyer `number` sends."""
    asked = {"guard": case.guard, "hold_ms": case.hold_ms, "buyer": f"buyer-{number}"}
    return Click(f"buyer-{number}", f"/stock/reduce?{urlencode(asked)}")
