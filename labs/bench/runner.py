"""One run of one case: reset, let the buyers click, count, judge."""

from __future__ import annotations

from urllib.parse import urlencode

from labs.bench.clients import Click, ClientPool, without_garbage_collection
from labs.bench.meters import Meter
from labs.bench.result import Case, MeasuredRush
from loadtest.results.answer import wall_s
from loadtest.results.verdict import judge_rush
from loadtest.shop_client.sale import Sale
from loadtest.shop_client.shops import get_json
from loadtest.stack.stack import Stack

_SALE = "demo"
# Of the instances, over what is exported for other commands.
STACK_SETTINGS = {
    "FLASHSALE_SALE": _SALE,
    "FLASHSALE_ADMIN_TOKEN": "",
    "FLASHSALE_ADMIN_TOKEN_FILE": "",
    "FLASHSALE_SECTION_LOG": "",
}


class Bench:
    """A running stack and what is needed to measure it; its sale has so many shards, None: FLASHSALE_SHARDS."""

    def __init__(self, stack: Stack, *, shards: int | None = None) -> None:
        self.stack, self.meter = stack, Meter(stack)
        self.sale = Sale(stack.urls, redis_url=stack.redis.url, etcd=stack.etcd.endpoint, name=_SALE, shards=shards)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.meter.close()
        self.sale.close()

    def run(self, case: Case) -> MeasuredRush:
        """One round; raises Unanswered and SaleError."""
        self.sale.reset(case.stock)
        for url in self.stack.urls:
            get_json(f"{url}/stock")  # as the board asks; an instance that does not know of the reset buys in two trips
        clicks = [buyer_click(case, number) for number in range(case.buyers)]
        with without_garbage_collection(), ClientPool(self.stack.urls[: case.instances]) as clients:
            clients.connect(int(case.rate / 5) if case.rate else len(clicks))
            answers, used = self.meter.measure(
                lambda: clients.stream(clicks, rate=case.rate) if case.rate else clients.burst(clicks)
            )
        ledger, left = self.sale.ledger()
        verdict = judge_rush(stock=case.stock, stock_left=left, ledger=ledger, answers=answers)
        return MeasuredRush(wall_s(answers), answers, verdict.sentence, used)


def buyer_click(case: Case, number: int) -> Click:
    """What buyer `number` sends."""
    asked = {"guard": case.guard, "hold_ms": case.hold_ms, "buyer": f"buyer-{number}"}
    return Click(f"buyer-{number}", f"/stock/reduce?{urlencode(asked)}")
