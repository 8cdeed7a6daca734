"""One run of one case: reset, let the buyers click, count, judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from app.contract.verdict import Verdict
from labs.bench.clients import CROWD, Click, ClientPool, crowd_burst, without_garbage_collection
from labs.bench.meters import Meter
from labs.bench.result import Case, Count, MeasuredRush
from loadtest.results.answer import Answer, wall_s
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
        clicks = [click(case, number) for number in range(case.buyers)]
        urls, is_crowd = self.stack.urls[: case.instances], case.buyers > CROWD and not case.rate
        answers, count = self._crowd(urls, clicks) if is_crowd else self._clicks(urls, clicks, case.rate)
        return MeasuredRush(wall_s(answers), answers, self._verdict(case, answers), count)

    def _clicks(self, urls: Sequence[str], clicks: Sequence[Click], rate: float) -> tuple[list[Answer], Count]:
        with without_garbage_collection(), ClientPool(urls) as clients:
            clients.connect(int(rate / 5) if rate else len(clicks))
            return self.meter.spent(lambda: clients.stream(clicks, rate=rate) if rate else clients.burst(clicks))

    def _crowd(self, urls: Sequence[str], clicks: Sequence[Click]) -> tuple[list[Answer], Count]:
        """From several processes; what it costs the instances that they connect is counted, too."""
        (answers, buyers_s), count = self.meter.spent(lambda: crowd_burst(urls, clicks))
        count.cpu_s["buyers"] = buyers_s
        return answers, count

    def _verdict(self, case: Case, answers: Sequence[Answer]) -> str:
        """In the words of the rush for one item; for several, the sum of what does not add up."""
        if case.items == 1:
            ledger, left = self.sale.ledger()
            return judge_rush(stock=case.stock, stock_left=left, ledger=ledger, answers=answers).sentence
        counts = [get_json(f"{self.stack.urls[0]}/stock?item={item}") for item in range(1, case.items + 1)]
        return total_verdict(counts, len(answers))


def total_verdict(counts: Sequence[Mapping[str, int]], buyers: int) -> str:
    """The sentence on many items, from what ``GET /stock`` says of each; there has to be stock for all buyers."""
    balance = [count["orders"] + count["stock"] - count["initial"] for count in counts]
    sold = sum(count["orders"] for count in counts)
    return Verdict(
        sold=sold,
        oversold=sum(max(0, count["orders"] - count["initial"]) for count in counts),
        undersold=max(buyers - sold, -sum(min(0, each) for each in balance)),
        lost_updates=sum(max(0, each) for each in balance),
    ).sentence


def click(case: Case, number: int) -> Click:
    """What buyer `number` does; the buyers take the items in turn."""
    asked = {"guard": case.guard, "hold_ms": case.hold_ms, "buyer": f"buyer-{number}", "item": number % case.items + 1}
    return Click(f"buyer-{number}", f"/stock/reduce?{urlencode(asked)}")
