"""What the board sees and tells: the sale and the queue, runs with their verdicts, and the stream of events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app.board import create_board
from app.board.live import event_stream, runs
from app.board.live.event_stream import KEPT, EventStream, TooManyViewers
from app.board.live.runs import SaleRun
from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.board.sources.heartbeats import HeartbeatReader
from app.board.sources.ledger import LedgerReading
from app.contract.clock import now_ns
from app.contract.orders import Order
from app.contract.section_log import LoggedSection
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from loadtest.stack.servers import Etcd, Redis
from tests.support.shops import buy, snapshot_of
from tests.support.waiting import assert_raises, in_thread, wait_until


def wait(sampler: Sampler, happened: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """What a new viewer receives as soon as `happened` holds of it."""
    wait_until(lambda: "unavailable" in sampler.snapshot()[1] and happened(sampler.snapshot()[1]))
    return sampler.snapshot()[1]


def wait_orders(sampler: Sampler, count: int) -> dict[str, Any]:
    return wait(sampler, lambda now: now["sale"] and now["sale"]["orders"] == count)


Watch = Callable[..., Sampler]


@pytest.fixture
def watch(board_settings: BoardSettings) -> Iterator[Watch]:
    """Begins to watch, with changes to the settings of the shop; stops at the end of the test."""
    with ExitStack() as closing:

        def begin(**shop: Any) -> Sampler:
            changed = board_settings.shop.model_copy(update=shop)
            board = create_board(board_settings.model_copy(update={"shop": changed}))
            sampler: Sampler = board.extensions["board"].sampler
            sampler.start()
            closing.callback(sampler.join, timeout=30)
            closing.callback(sampler.close)
            return sampler

        yield begin


def buy_each(app: Flask, guard: str, *buyers: str) -> None:
    assert [buy(app, guard, buyer=buyer)["status"] for buyer in buyers] == [200] * len(buyers)


@pytest.mark.usefixtures("sale")
def test_a_purchase_is_seen_with_all_that_is_known_of_it(app: Flask, watch: Watch) -> None:
    """Counters and critical sections are shown; the run with its sections can be asked for by its guard."""
    sampler = watch()
    buy_each(app, "etcd", "ada", "<b>bob</b>")
    now = wait(sampler, lambda now: [bool(each["left_ms"]) for each in now["sections"]] == [True] * 2)
    now = wait_orders(sampler, 2)
    assert now["sale"]["verdict"] == "EXACT"
    first, second = now["sections"]
    assert (first["buyer"], second["buyer"], first["instance"], first["item"]) == ("ada", "<b>bob</b>", "shop-a", "1")
    assert first["token"] < second["token"]
    assert 0 <= first["entered_ms"] < first["left_ms"] < second["entered_ms"] < second["left_ms"] < now["now_ms"]
    assert now["unavailable"] == {"redis": None, "etcd": None}
    assert sampler.last_run("none") is None
    kept = sampler.last_run("etcd")
    assert kept is not None
    assert kept["sale"] == now["sale"]
    assert kept["orders"] == [each["order"] for each in kept["sections"]]
    assert [{name: each[name] for name in now["sections"][0]} for each in kept["sections"]] == now["sections"]
    assert kept["source"]["file"] == "app/guards/etcd.py"
    points = {point["name"]: point["at_ms"] for point in kept["sections"][0]["points"]}
    assert first["entered_ms"] < points["read"] < points["write"] < points["left"] <= first["left_ms"]
    assert [(each["stock_read"], each["stock"]) for each in kept["sections"]] == [(10, 9), (9, 8)]


def test_a_lost_sale_is_said_to_be_lost(app: Flask, sale: Sale, watch: Watch) -> None:
    """A Redis that lost the sale is not shown as a sale that never began; a reset ends that."""
    sampler = watch()
    now = wait(sampler, lambda now: now["sale"])
    assert (now["sale"]["orders"], now["sale"]["verdict"], now["ended"]) == (0, "EXACT", [])
    buy_each(app, "etcd", "ada")
    wait_orders(sampler, 1)
    sale.client.delete(*vars(sale.keys).values())
    wait(sampler, lambda now: now["unavailable"]["redis"] == "Redis has lost this sale: reset it")
    sale.reset(5)
    wait(sampler, lambda now: now["unavailable"]["redis"] is None and now["sale"]["stock"] == 5)


def test_the_last_run_of_each_guard_is_kept(app: Flask, sale: Sale, watch: Watch) -> None:
    """A run ends with a reset, whole, even if its last orders came just before; the next one stands beside it."""
    sampler = watch()
    buy_each(app, "etcd", "ada")
    wait_orders(sampler, 1)
    buy_each(app, "etcd", "bob", "eve")
    sale.reset(5)
    now = wait(sampler, lambda now: now["ended"])
    (ended,) = now["ended"]
    assert (ended["guard"], ended["orders"], ended["stock"], ended["verdict"]) == ("etcd", 3, 7, "EXACT")
    assert ended["by_instance"] == {"shop-a": 3}
    assert (now["sale"]["initial"], now["sale"]["orders"], now["sections"]) == (5, 0, [])


def test_a_frozen_server_is_unavailable_until_it_answers(
    make: Callable[..., Flask], fresh_redis: Redis, fresh_etcd: Etcd, watch: Watch
) -> None:
    """Without Redis the queue is still shown, without etcd the sale; when they answer, everything is."""
    servers = {"redis_url": fresh_redis.url, "etcd_endpoints": fresh_etcd.endpoint}
    app, sampler = make(**servers), watch(**servers)
    buy_each(app, "redis-lua", "ada")
    wait(sampler, lambda now: now["queue"])
    fresh_redis.pause()
    now = wait(sampler, lambda now: now["unavailable"]["redis"])
    assert now["unavailable"]["etcd"] is None
    assert now["queue"] is not None
    fresh_redis.resume()
    wait(sampler, lambda now: now["unavailable"]["redis"] is None)
    fresh_etcd.pause()
    now = wait(sampler, lambda now: now["unavailable"]["etcd"])
    assert (now["queue"], now["unavailable"]["redis"]) == (None, None)
    buy_each(app, "redis-lua", "bob")
    wait_orders(sampler, 2)
    fresh_etcd.resume()
    wait(sampler, lambda now: now["unavailable"]["etcd"] is None)


# A run of the sale: its orders and sections, its end, and its verdict.


EXAMPLES = json.loads((Path(__file__).parents[3] / "data/verdicts.json").read_text(encoding="utf-8"))


def section(number: int, entered: int, left: int | None) -> LoggedSection:
    return LoggedSection(number, entered, str(number), "ada", "etcd", None, "shop-a", 1, "t", left=left)


def order(guard: str, at_ms: int = 0) -> Order:
    return Order("1", "ada", "shop-a", guard, at_ms=at_ms)


def run_of(began_s: float = 1000.0) -> SaleRun:
    """A run that began then, with ten items."""
    return SaleRun(str(int(began_s * 1e6)), SaleSnapshot(initial=10, stock=10, lucky=0, orders=0))


def test_sections_belong_to_the_run_in_which_they_began() -> None:
    """When the next run turns out to have begun, its first sections are handed to it."""
    run = run_of()
    early, own, late = (section(n, run.began_ns + at, None) for n, at in ((1, -1), (2, 5), (3, 50)))
    assert run.add_sections([early, own, late]) == [own, late]
    ended = LedgerReading(run.generation, SaleSnapshot(initial=10, stock=9, lucky=1, orders=1), [order("etcd")])
    assert run.end(run.began_ns + 20, ended) == [late]
    assert list(run.sections.values()) == [own]
    assert (run.summary()["orders"], run.summary()["guard"], run.orders) == (1, "etcd", ["1"])


def test_a_run_is_cut_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections beyond the limit are dropped, and the run says so; its figures count all orders."""
    monkeypatch.setattr(runs, "MOST_SECTIONS", 2)
    run = run_of()
    run.add_sections(section(number, run.began_ns + number, None) for number in (1, 2))
    run.add_orders(order("etcd", at_ms) for at_ms in (1, 2, 9))
    assert not run.cut
    ended = section(1, run.began_ns + 1, run.began_ns + 2)
    assert run.add_sections([section(9, run.began_ns + 9, None), ended]) == [ended]
    assert (run.cut, len(run.sections), len(run.orders)) == (True, 2, 2)
    assert (run.summary()["by_instance"], run.summary()["selling_ms"]) == ({"shop-a": 3}, 8)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_a_run_that_is_over_has_the_verdict_of_the_load_test(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buyers that gave up or were not served count as soon as all have their answers, and not before."""
    monkeypatch.setattr(runs, "QUIET_S", 0.0)
    now = snapshot_of(example)
    run = SaleRun("1000000000", now)
    given = {"sold": "sold", "sold_out": "sold_out", "lock_timeout": "gave_up", "unavailable": "failed"}
    outcomes = Counter({outcome: example.get(name, 0) for outcome, name in given.items()})
    run.add_orders(order("etcd") for _ in range(example["sold"]))
    run.answered(Counter(), in_hand=1, lost=0)
    run.answered(outcomes, in_hand=1, lost=0)
    assert (run.verdict, run.verdict.lost_updates) == (now.judge(), example["lost_updates"])
    run.answered(outcomes, in_hand=0, lost=0)
    told = [run.summary()[name] for name in ("verdict", "gave_up")]
    assert told == [example["verdict"], example["gave_up"]]


def test_only_the_purchases_of_a_run_are_counted(tmp_path: Path) -> None:
    """Answers before the reset belong to the run before, also those that are read afterwards.

    A restarted container is another process, which may have the id of the killed one: the purchases of both count,
    what was in hand is known, and what has ended stays.
    """
    reader, began = HeartbeatReader(tmp_path), now_ns()

    def beat(after: int, process: int, *, in_hand: int = 0, **outcomes: int) -> Counter[str]:
        told = {"at": began + after, "instance": "shop-a", "pid": 1, "began": process, "threads": 8}
        told |= {"in_hand": in_hand, "queued": 0, "outcomes": outcomes}
        (tmp_path / "shop-a-1.heartbeat").write_text(json.dumps(told))
        reader.read()
        return reader.outcomes

    beat(-2, 1, sold=7, lock_timeout=4)
    beat(1, 1, sold=8, lock_timeout=4)
    reader.begin(began)
    assert reader.outcomes == {"sold": 1}
    assert beat(2, 1, sold=9, lock_timeout=5, in_hand=3) == {"sold": 2, "lock_timeout": 1}
    beat(3, 2)
    assert beat(4, 2, sold=1) == {"sold": 3, "lock_timeout": 1}
    assert [each.in_hand for each in reader.stale if each.began == 1] == [3]
    (tmp_path / "shop-a-1.heartbeat").unlink()
    for _ in range(2):
        reader.read()
        assert reader.outcomes == {"sold": 3, "lock_timeout": 1}
    reader.begin(began + 5)
    assert beat(6, 2) == {}
    assert reader.stale == []


# The stream of events: what a viewer receives, how many viewers there may be, and how a stream ends.


EVERYTHING = ("hello", {"everything": True})


def events(chunk: bytes) -> list[tuple[str, Any]]:
    found = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_viewer_receives_everything_and_then_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing before the first look; then hello, and each later event once, with any text in it.

    Comments show that the connection stands; a viewer that missed more than is kept begins anew.
    """
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.01)
    source: EventStream = EventStream(lambda: (source.number, {"everything": True}), viewers=2)
    stream, name = source.view(), "Ada\n\nevent: hello\ndata: {}\r\r<script>\u2028 ☃"
    assert next(stream) == b": still here\n\n"
    source.publish("sample", {"n": 1})
    assert events(next(stream)) == [EVERYTHING]
    assert next(stream) == b": still here\n\n"
    source.publish("sample", {"n": 2})
    source.publish("sample", {"buyer": name})
    assert events(next(stream)) == [("sample", {"n": 2}), ("sample", {"buyer": name})]
    for number in range(KEPT + 1):
        source.publish("sample", {"n": number})
    assert events(next(stream)) == [EVERYTHING], "more than is kept: a snapshot instead of a gap"


def test_there_is_room_for_so_many_viewers_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is refused at once; a viewer that hangs up makes room for one.

    A stream ends after its lifetime, or when the source is closed: of viewers who wait, and of those who come later.
    """
    source = EventStream(lambda: (1, {}), viewers=2)
    source.publish("sample", {"n": 0})
    first, stream = source.view(), source.view()
    next(stream)
    assert_raises(TooManyViewers, source.view, match="2 viewers")
    first.close()  # type: ignore[attr-defined]
    first.close()  # type: ignore[attr-defined]
    assert source.viewers == 1
    late = source.view()
    assert_raises(TooManyViewers, source.view)
    waiting: Future[list[bytes]] = in_thread(list, stream)
    source.close()
    assert waiting.result(20) == []
    assert list(late) == []
    monkeypatch.setattr(event_stream, "LIFETIME_S", 0.0)
    assert list(EventStream(lambda: (0, {}), viewers=1).view()) == []
