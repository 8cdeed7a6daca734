"""One run of one case: reset, let the buyers click, count, judge."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlencode

from labs.bench.clients import Click, ClientPool
from labs.bench.meters import Meter, processes_of
from labs.bench.result import Case, MeasuredRush
from labs.bench.suite import BARE, PINNED
from loadtest import REPOSITORY
from loadtest.ports import free_port
from loadtest.results.answer import Answer, wall_s
from loadtest.results.audit import Audit
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import get_json
from loadtest.stack.apps import App, Instance
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
            assert self.bare is not None, "the part has no bare apps"
            answers, used = self._click(case, BARE[case.guard], [self.bare.url])
            return MeasuredRush(wall_s(answers), answers, "", used)
        self.sale.reset(case.stock)
        for url in self.stack.urls:
            get_json(f"{url}/stock")  # as the board asks; an instance that does not know of the reset buys in two trips
        path = f"/stock/reduce?{urlencode({'guard': case.guard, 'hold_ms': case.hold_ms})}&buyer="
        answers, used = self._click(case, path, self.stack.urls[: case.instances])
        ledger, left = self.sale.ledger()
        verdict = Audit(case.stock, left, ledger, answers).verdict()
        return MeasuredRush(wall_s(answers), answers, verdict.sentence, used)

    def place(self, pinned: bool) -> None:
        """Have each instance, and the bare app, run on one CPU from now on, or on all that this process may use."""
        if not PINNED:
            return
        usable = sorted(os.sched_getaffinity(0))
        for number, instance in [*enumerate(self.stack.instances), (0, self.bare)]:
            for thread in [thread.id for each in processes_of(instance) for thread in each.threads()]:
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.sched_setaffinity(thread, {usable[number % len(usable)]} if pinned else usable)

    def _click(self, case: Case, path: str, urls: Sequence[str]) -> tuple[list[Answer], dict[str, float]]:
        """Let each buyer ask for the path; one that ends with ``buyer=`` tells who asks."""
        names = [f"buyer-{number}" for number in range(case.buyers)]
        clicks = [Click(name, path + name if path.endswith("=") else path) for name in names]
        with ClientPool(urls) as clients:
            clients.connect(case.connections or (int(case.rate / 5) if case.rate else len(clicks)))
            if case.rate:
                return self.meter.measure(lambda: clients.stream(clicks, rate=case.rate))
            return self.meter.measure(lambda: clients.loop(clicks))
