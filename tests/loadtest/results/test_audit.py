"""The audit: every way in which answers, ledger and critical sections can disagree is found, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.orders import Order, Token
from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit, audit
from loadtest.results.fence import past_fence
from loadtest.results.losses import Losses
from loadtest.results.overlaps import MOST_KEPT, Overlaps
from loadtest.results.record import CriticalSection, Point, Record

DATA = Path(__file__).parents[2] / "data"


def answer(number: int, outcome: Outcome = Outcome.SOLD) -> Answer:
    """What buyer `number` was told, 10 ms after the one before."""
    at = 10.0 * number
    order = f"order-{number}" if outcome is Outcome.SOLD else None
    return Answer(f"buyer-{number}", outcome, "shop-a", order, sent_ms=at, answered_ms=at + 9, status=200)


def entry(number: int) -> Order:
    return Order(f"order-{number}", f"buyer-{number}", "shop-a", "etcd", number, 10.0 * number)


def section(number: int, entered: float, left: float | None, **changes: object) -> CriticalSection:
    """The critical section in which buyer `number` was sold an item."""
    whose = {"order": f"order-{number}", "buyer": f"buyer-{number}", "instance": f"shop-{number % 2}", "token": number}
    times = {"entered_ms": entered, "read_ms": entered, "commit_ms": left, "left_ms": left}
    made = {**whose, **times, "pid": 1, "thread": "t", "guard": "etcd", "outcome": "sold", **changes}
    return CriticalSection(**made)  # type: ignore[arg-type]


def sale(stock: int, buyers: int) -> Record:
    """An exact sale: one after the other, until nothing was left."""
    sold = min(stock, buyers)
    return Record(
        kind="rush",
        guard="etcd",
        promise="exact",
        stock=stock,
        buyers=buyers,
        hold_ms=0,
        started="2030-01-01T00:00:00+00:00",
        versions={},
        verdict={"findings": {"exact": 0}, "kind": "exact", "exact": True, "lost_updates": 0}
        | {"orders": sold, "stock_left": stock - sold},
        answers=[answer(n, Outcome.SOLD if n < sold else Outcome.SOLD_OUT) for n in range(buyers)],
        ledger=[entry(n) for n in range(sold)],
        sections=[section(n, 10.0 * n, 10.0 * n + 9, stock_read=stock - n, stock=stock - n - 1) for n in range(sold)],
    )


@given(stock=st.integers(0, 40), buyers=st.integers(0, 60))
def test_an_exact_sale_has_no_findings(stock: int, buyers: int) -> None:
    """However many items and buyers: where everything agrees, nothing is found."""
    result = audit(sale(stock, buyers))
    assert result.findings() == []
    assert (result.overlaps, result.unfinished, result.unacknowledged) == (Overlaps(), [], [])


def changed(rows: list[Any], number: int, **changes: object) -> None:
    """Replace one row of a record by one that differs in these members."""
    rows[number] = replace(rows[number], **changes)


def without_answer(record: Record, number: int) -> None:
    """The answer of buyer `number` is lost."""
    changed(record.answers, number, outcome=Outcome.ERROR, order=None, status=0, in_doubt=True)


def repeat_order(record: Record, number: int) -> None:
    """The order is there twice, and the counter knows."""
    record.ledger.append(replace(record.ledger[number], token=99))
    record.verdict["stock_left"] -= 1


def write_late(record: Record, number: int) -> None:
    """The next holder has read and not written when the write of `number` is sent."""
    at = 10.0 * number
    changed(record.sections, number, commit_ms=at + 12, left_ms=at + 14)
    changed(record.sections, number + 1, outcome="unavailable", points=(Point("read", 1, at + 11),))


CORRUPTIONS: dict[str, tuple[Callable[[Record, int], object], list[str]]] = {
    "an order is not in the ledger": (
        lambda record, n: record.ledger.pop(n), ["sold + stock is 19 of 20", "1 acknowledged but missing"],
    ),
    "the buyer was told that nothing was bought": (
        lambda record, n: changed(record.answers, n, outcome=Outcome.LOCK_LOST), ["1 sold but denied"],
    ),
    "the order is there twice": (repeat_order, ["1 duplicate"]),
    "an old counter was written": (
        lambda record, n: record.verdict.update(stock_left=1), ["sold + stock is 21 of 20"],
    ),
    "a lower token came into the ledger later": (
        lambda record, n: changed(record.ledger, n + 1, token=-1), ["1 order out of token order"],
    ),
    "the buyer came after the next one had its item": (
        lambda record, n: changed(record.answers, n, sent_ms=10.0 * n + 22, answered_ms=10.0 * n + 29),
        ["1 order out of real-time order"],
    ),
    "a buyer was told sold out while all items were there": (
        lambda record, n: changed(record.answers, 20 + n % 10, sent_ms=0.0, answered_ms=5.0),
        ["1 told sold out too early"],
    ),
    "the write landed after the next holder had read": (write_late, ["1 write past the fence"]),
    "the holder was frozen after its write": (
        lambda record, n: changed(record.sections, n, commit_ms=10.0 * n + 3, left_ms=900.0), [],
    ),
    "the buyer got no answer, so the order is not wrong": (without_answer, []),
    "the shop answered that it does not know, so the order is not wrong": (
        lambda record, n: changed(record.answers, n, outcome=Outcome.UNAVAILABLE, order=None, in_doubt=True), [],
    ),
    "a second buyer was told of the order": (
        lambda record, n: record.answers.append(replace(record.answers[n], buyer="another")),
        ["1 acknowledged but missing"],
    ),
    "the section read what the one before had read": (
        lambda record, n: changed(record.sections, n + 1, stock_read=20 - n, stock=19 - n), ["1 write that lost sales"],
    ),
    "the section lasts into the next, and both wrote in turn": (
        lambda record, n: changed(record.sections, n, left_ms=10.0 * n + 15), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CORRUPTIONS)
@given(number=st.integers(0, 18))
def test_each_corruption_is_found_and_no_other(what: str, number: int) -> None:
    """One thing is wrong with one order, whichever: exactly that is found."""
    record, (corrupt, findings) = sale(20, 30), CORRUPTIONS[what]
    corrupt(record, number)
    found = audit(record)
    assert [*map(str, found.findings())] == findings
    assert found.lost_updates == (what == "an old counter was written")


EXAMPLES = json.loads((DATA / "overlaps.json").read_text(encoding="utf-8"))
PLAIN = {"instance": "a", "pid": 1, "token": None, "read_ms": None, "commit_ms": None}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_overlaps_are_those_of_the_page(example: dict[str, Any]) -> None:
    """Each shared example has its pairs, and the times in which there were any."""
    sections = [section(n, 0, 0, **{**PLAIN, **each}) for n, each in enumerate(example["sections"])]
    found = Overlaps.of(sections)
    pairs = [sorted((each.first.order, each.second.order)) for each in found.pairs]
    spans = [list(span) for span in found.spans]
    assert (sorted(pairs), spans) == (example["pairs"], example["spans"])
    died = [each for each in sections if each.left_ms is None]
    assert audit(replace(sale(2, 2), sections=sections)).unfinished == died


tokens = st.one_of(st.none(), st.integers(1, 9), st.lists(st.integers(1, 9), min_size=2, max_size=2))


@given(st.lists(tokens, max_size=20))
def test_guards_may_share_a_ledger(written: list[int | list[int] | None]) -> None:
    """Whole holds, turns and purchases without a token: a turn comes after its hold, and no token has no rank."""
    record = sale(len(written), len(written))
    record.ledger = [replace(entry(n), token=token) for n, token in enumerate(written)]
    pairs = [(token, 0) if isinstance(token, int) else tuple(token) for token in written if token is not None]
    late = sum(pair < max(pairs[:n]) for n, pair in enumerate(pairs) if n)
    assert len(audit(record).token_regressions) == late


@pytest.mark.parametrize("place", [0, 3], ids=["told first", "told last"])
def test_asking_again_resolves_a_doubt(place: int) -> None:
    """A buyer whose answer was lost is in doubt until a later question, wherever it is recorded, tells of the order."""
    record = sale(3, 3)
    without_answer(record, 1)
    assert [row.order for row in audit(record).unacknowledged] == ["order-1"]
    record.answers.insert(place, replace(answer(1), sent_ms=1000.0, answered_ms=1001.0))
    result = audit(record)
    assert (result.unacknowledged, result.findings()) == ([], [])


def test_a_stranger_may_buy_twice() -> None:
    """A buyer from outside the rush may buy more than once; a buyer of the rush may not."""
    record = sale(3, 1)
    record.ledger += [replace(entry(number), buyer="anonymous") for number in (7, 8)]
    assert audit(record).duplicates == []
    second = replace(entry(9), buyer="buyer-0")
    record.ledger.append(second)
    assert audit(record).duplicates == [second]
    repeated = replace(entry(9), buyer="anonymous")
    record.ledger.append(repeated)
    assert audit(record).duplicates == [repeated, second]


def test_pairs_are_counted_and_not_all_kept() -> None:
    """Retries without a lock make millions of pairs: the count and the times are of all, the list is of the first."""
    many = [section(n, float(n), 1000.0 + n, outcome=None, token=None) for n in range(160)]
    found = Overlaps.of([*many, section(500, 2000.0, 2010.0), section(501, 2001.0, 2011.0)])
    assert found.count == 160 * 159 // 2 + 1
    assert len(found.pairs) == MOST_KEPT
    assert found.spans == [(1.0, 1158.0), (2001.0, 2010.0)]


def stall(answers: list[Answer]) -> float:
    return Audit(3, 0, [], answers).longest_stall_ms


def test_the_longest_stall() -> None:
    """The longest time without a sale, from the first request on; the time after the last sale does not count."""
    answers = [answer(0), answer(1), replace(answer(2), answered_ms=500.0), answer(3, Outcome.SOLD_OUT)]
    assert stall(answers) == stall(answers[::-1]) == 481.0
    late = [replace(each, answered_ms=each.answered_ms + 1000) for each in answers]
    assert stall(late) == stall(late[::-1]) == 1009.0
    assert stall([]) == 0.0


# The fence: a write that lands after a read under a higher token is found, and no overlap alone.


def fenced(
    buyer: str, token: Token | None, *, read: float | None, write: float | None, **changes: object
) -> CriticalSection:
    """A section in which the stock was known at `read` and the write sent at `write`; a script has no `read`."""
    name, at_ms = ("read", read) if read is not None else ("wrote", None if write is None else write + 1)
    points = () if at_ms is None else (Point(name, 1, at_ms),)
    told = {"buyer": buyer, "token": token, "read_ms": read, "commit_ms": write, "points": points}
    return section(0, 0.0, 100.0, **told, **changes)


def late_writes(*sections: CriticalSection) -> list[tuple[str, str]]:
    return [(each.write.buyer, each.read.buyer) for each in past_fence(sections)]


LATE, READER = fenced("a", 1, read=1, write=9), fenced("b", 2, read=5, write=7)
FOUND = [("a", "b")]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(LATE, READER, FOUND, id="A reads under 1, B reads under 2, and then A's write lands"),
        pytest.param(fenced("a", 1, read=1, write=3), READER, [], id="A is frozen after its write"),
        pytest.param(replace(LATE, outcome="lock_lost"), READER, [], id="A's write was refused"),
        pytest.param(replace(LATE, cause="replayed"), READER, [], id="A was given an older answer"),
        pytest.param(fenced("a", 1, read=1, write=None), READER, [], id="A wrote nothing"),
        pytest.param(LATE, fenced("b", 2, read=None, write=5), FOUND, id="a script reads when it writes"),
        pytest.param(
            LATE, fenced("b", 2, read=None, write=5, outcome="unavailable"), [], id="one without answer may not have"
        ),
        pytest.param(LATE, replace(READER, item="2"), [], id="another item has another fence"),
        pytest.param(replace(LATE, token=[7, 2]), replace(READER, token=[7, 10]), FOUND, id="turns are ranked"),
        pytest.param(replace(LATE, token=None), replace(READER, token=None), [], id="no token, no fence"),
    ],
)
def test_a_write_that_lands_after_a_read_under_a_higher_token_is_found(
    first: CriticalSection, second: CriticalSection, expected: list[tuple[str, str]]
) -> None:
    """The read should have shut it out; only a write that sold counts."""
    assert late_writes(first, second) == expected


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20), st.integers(0, 20)), max_size=10))
def test_the_late_writes_are_those_of_all_pairs(made: list[tuple[int, int, int]]) -> None:
    """One pass finds each write with a higher token read before it."""
    sections = [fenced(str(n), token, read=min(a, b), write=max(a, b)) for n, (token, a, b) in enumerate(made)]
    late = [
        write.buyer
        for write in sections
        if any(read.token > write.token and read.read_ms < write.commit_ms for read in sections)  # type: ignore[operator]
    ]
    assert sorted(buyer for buyer, _ in late_writes(*sections)) == sorted(late)


# Lost updates: what each write made of the counter, which sales it overwrote, and when.


LOSSES = json.loads((DATA / "losses.json").read_text(encoding="utf-8"))
STOCK = 300


def losses_of(example: dict[str, Any]) -> Losses:
    items = example.get("items", ["1"] * len(example["ledger"]))
    ledger = [Order(order, f"of {order}", item=item) for order, item in zip(example["ledger"], items, strict=True)]
    sections = [section(n, 0, 0, **{"read_ms": None, **each}) for n, each in enumerate(example["sections"])]
    return Losses.of(ledger, sections, STOCK)


@pytest.mark.parametrize("example", LOSSES, ids=lambda example: example["what"])
def test_losses_are_those_of_slow_motion(example: dict[str, Any]) -> None:
    """Each shared example has what each write lost, and each sale that is missing with the one over it."""
    found = losses_of(example)
    assert [write.lost for write in found.writes] == example["losses"]
    assert [[sale.order, write.entry.order] for sale, write in found.pairs] == example["overwritten"]
    assert [len(write.overwrote) for write in found.losing] == [write.lost for write in found.losing]


@given(lags=st.lists(st.integers(0, 6), max_size=40))
def test_losses_add_up_to_the_lost_updates(lags: list[int]) -> None:
    """Whatever each purchase had read: orders missing from the counter, signed losses and overwritten sales agree."""
    counters, sections, ledger = [STOCK], [], []
    for number, lag in enumerate(lags):
        read = counters[-1 - min(lag, number)]  # the counter some writes ago
        counters.append(read - 1)
        sections.append(section(number, 0, 1, stock_read=read, stock=read - 1))
        ledger.append(Order(f"order-{number}", f"buyer-{number}"))
    found = Losses.of(ledger, sections, STOCK)
    assert found.total == len(ledger) + counters[-1] - STOCK == len(found.pairs)


def bought(number: int, read: tuple[int, float], sent: float, answered: float) -> CriticalSection:
    """A purchase that knew the stock at a time, and sent its write and had the answer at others."""
    stock, read_ms = read
    points = (Point("read", 1, read_ms), Point("write", 1, sent), Point("wrote", 1, answered))
    times = {"read_ms": read_ms - 1, "commit_ms": sent, "points": points}
    return section(number, 0.0, answered + 1, stock_read=stock, stock=stock - 1, **times)


def test_a_write_came_before_those_that_saw_it() -> None:
    """Its time is not after its answer, the next write, or a read of its number; nor before it was sent."""
    sections = [bought(0, (300, 1), 2, 9), bought(1, (299, 5), 6, 20), bought(2, (298, 30), 7, 15)]
    found = Losses.of([Order(f"order-{n}", f"buyer-{n}") for n in range(3)], sections, STOCK)
    assert [write.at_ms for write in found.writes] == pytest.approx([5, 15, 15], abs=0.001)
    assert [write.at_ms for write in found.writes] == sorted(write.at_ms or 0 for write in found.writes)
