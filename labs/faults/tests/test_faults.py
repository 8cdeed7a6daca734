"""Faults: scenarios against a real stack, what is expected of them, what they look like, and records judged again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from app.contract.outcomes import Outcome
from app.contract.verdict import Verdict
from labs.faults.audit_command import audit_records
from labs.faults.buyers import Buyers
from labs.faults.commands import exit_code, faults
from labs.faults.context import VICTIM, ScenarioContext, TrialListener
from labs.faults.judgement import judge_trial
from labs.faults.scenario import Expected, Scenario
from labs.faults.scenarios.holder import DelayedWrite, PauseHolder
from labs.faults.scenarios.random_sequence import Injection, injections, plan_injections
from labs.faults.screen import results_table, sale_picture
from labs.faults.testbed import Setup, Testbed
from labs.faults.threads import MistimedFault
from labs.faults.trial import MOST_PLAYS, Trial
from loadtest.language import Message
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit, audit
from loadtest.results.record import Expectation, Point, Record, Sample
from loadtest.shop_client.shops import in_progress
from loadtest.stack.proxy import Proxy
from tests.support.commands import finished
from tests.support.terminal import printed

pytestmark = pytest.mark.timeout(240)  # several sales, one after the other

DATA = Path(__file__).parents[3] / "tests/data"
EXACT = Verdict(sold=300, oversold=0, undersold=0, lost_updates=0)
CLEAN = replace(audit(Record.read(DATA / "rush-etcd.json")), stock=8)
STOCK = 150  # the fault is over before as many are sold
FEW = 20  # the sale is under way, and over


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A stack in which all tests play, one after the other; a token exported for other commands is not its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHSALE_ADMIN_TOKEN", "secret")
        patch.setenv("FLASHSALE_ADMIN_TOKEN_FILE", "/nowhere/token")
        with Testbed(tmp_path_factory.mktemp("testbed"), Setup()) as testbed:
            yield testbed


def problems_of(record: Record) -> list[str]:
    assert record.expectation is not None
    return [*map(str, record.expectation.problems)]


class Late(Scenario):
    """Come too late for so many times."""

    name = "late"

    def __init__(self, times: int) -> None:
        self.times = times
        self.plays = 0

    def play(self, context: ScenarioContext) -> None:
        self.plays += 1
        if self.plays <= self.times:
            raise MistimedFault("too late")


@pytest.mark.parametrize(
    ("scenario", "plays", "as_expected"),
    [(Late(1), 2, True), (Late(MOST_PLAYS), MOST_PLAYS, None)],
)
def test_an_untimely_fault_is_played_again(
    testbed: Testbed, monkeypatch: pytest.MonkeyPatch, scenario: Late, plays: int, as_expected: bool | None
) -> None:
    """A fault that missed its moment is not judged; after several there is no verdict. No connection is left."""
    with Proxy(testbed.redis.url.removeprefix("redis://").removesuffix("/0")) as line:
        monkeypatch.setattr(type(testbed.redis), "url", f"redis://{line.endpoint}/0")
        record = Trial(scenario, "etcd", testbed, TrialListener(), stock=FEW).run()
        opened = psutil.Process().net_connections("tcp")
        assert [each.status for each in opened if each.raddr and each.raddr.port == line.port] == []
    assert (scenario.plays, record.as_expected) == (plays, as_expected)
    assert problems_of(record)[:1] == ([] if as_expected else ["too late"])


def test_the_exit_code_tells_no_verdict_from_a_broken_promise() -> None:
    """0: all are as expected; 1: one is not, whatever else has no verdict; 2: one has no verdict."""
    record = Record.read(DATA / "rush-etcd.json")
    expectations = (Expectation("EXACT", as_expected, []) for as_expected in (True, False, None))
    good, bad, unknown = (replace(record, expectation=each) for each in expectations)
    assert exit_code([good, good]) == 0
    assert exit_code([good, unknown, bad]) == 1
    assert exit_code([unknown, good]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "outcome"), [("etcd", "lock_lost"), ("etcd-checked", "lock_lost"), ("etcd-unfenced", "sold")]
)
def test_a_frozen_holder_oversells_without_check_and_fence(testbed: Testbed, guard: str, outcome: str) -> None:
    """Its late write lands where nothing holds it back, is answered truthfully, and the record shows the overlap."""
    record = Trial(PauseHolder(), guard, testbed, TrialListener(), stock=STOCK).run()
    assert record.as_expected, problems_of(record)
    section, *_ = (section for section in record.sections if section.buyer == VICTIM)
    assert section.outcome == outcome
    found = audit(record)
    assert any(VICTIM in (each.first.buyer, each.second.buyer) for each in found.overlaps.pairs)
    assert any(each.entry.buyer == VICTIM for each in found.losses.losing) is (outcome == "sold")
    assert (found.sold > STOCK) is (outcome == "sold")
    assert [str(event.message) for event in record.events][1] == "shop-a is frozen"


def test_only_the_fence_refuses_a_late_write(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that was sent in time and arrives after others have sold is refused, and its buyer has one order.

    Nobody stood before that buyer, who might have waited too long.
    """
    start_purchase, ahead = Buyers.start_purchase, list[int]()

    def count_and_start(buyers: Buyers, buyer: str, **options: Any) -> Future[Answer]:
        ahead.append(sum(in_progress(shop.url) for shop in testbed.shops))
        return start_purchase(buyers, buyer, **options)

    monkeypatch.setattr(Buyers, "start_purchase", count_and_start)
    record = Trial(DelayedWrite(), "etcd", testbed, TrialListener(), stock=STOCK).run()
    assert record.as_expected, problems_of(record)
    assert record.expectation == Expectation("EXACT", True, [], fault=DelayedWrite.summary)
    first, *_, last = [answer for answer in record.answers if answer.buyer == VICTIM]
    assert (first.outcome, first.in_doubt, last.outcome) == ("unavailable", True, "sold")
    assert max(ahead) <= 1  # who was let in at that very moment
    assert len([row for row in record.ledger if row.buyer == VICTIM]) == 1


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "words",
    [
        ["pause-holder", "--guard=etcd", "--guard=etcd-unfenced"],
        *(["random", "--seconds=20", f"--guard={guard}"] for guard in ("etcd", "etcd-cohort", "etcd-batch")),
    ],
    ids=" ".join,
)
def test_every_sale_of_the_command_is_as_expected(tmp_path: Path, words: list[str]) -> None:
    """One scenario, or sale after sale with random faults: exact under a fence, oversold without; the records tell."""
    done = finished(tmp_path, "faults", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d runs? in \d+ s: all as expected\.$", done.stdout, re.MULTILINE)
    records = [Record.read(path) for path in tmp_path.glob("reports/latest/records/*.json")]
    assert {f"--guard={record.guard}" for record in records} == {word for word in words if word.startswith("--guard=")}
    for found, fenced in ((audit(record), record.promise == "exact") for record in records):
        assert (found.findings() == []) is (found.sold == 300) is fenced


def test_unplayable_runs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started, and no run of nothing is called as expected."""
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(faults, ["--guard=redis-lua", "pause-holder", "kill-holder"])
    assert refused.exit_code == 2
    assert "Error: pause-holder, kill-holder: not for redis-lua\n" in refused.output
    assert list(tmp_path.iterdir()) == []


OVERSOLD = replace(EXACT, oversold=2, lost_updates=2)
OVERLAPPED = replace(CLEAN, sections=[replace(each, left_ms=1e6) for each in CLEAN.sections])  # frozen after the writes
SILENT = replace(CLEAN, answers=[*CLEAN.answers, Answer.read("ada", "", 0, None, sent=0, received=0)])
TOLD = Message("the victim was told sold_out")
MISSED = {"failures": [TOLD], "delays": [Message("the sale of 20 more items")]}


@pytest.mark.parametrize(
    ("expected", "promise", "verdict", "found", "more", "as_expected"),
    [
        # What did not happen in time gives no verdict, whatever the scenario has required.
        (Expected.EXACT, "exact", EXACT, CLEAN, MISSED, None),
        (Expected.EXACT, "exact", EXACT, SILENT, {}, None),
        # What stands in the ledger is a fact, unless a holder outlived its lease by itself under a guard without fence.
        (Expected.EXACT, "exact", OVERSOLD, OVERLAPPED, MISSED, False),
        (Expected.EXACT, "exact_until_paused", OVERSOLD, OVERLAPPED, {}, None),
        (Expected.EXACT, "exact_until_paused", OVERSOLD, CLEAN, MISSED, False),
        (Expected.EXACT, "exact", EXACT, CLEAN, {"failures": [TOLD]}, False),
        # A scenario that has to break the sale, and does not, proves nothing.
        (Expected.BREAKS, "exact_until_paused", OVERSOLD, CLEAN, {}, True),
        (Expected.BREAKS, "exact_until_paused", EXACT, CLEAN, {}, False),
    ],
)
def test_a_slow_machine_never_makes_a_guard_look_wrong(
    expected: Expected, promise: str, verdict: Verdict, found: Audit, more: dict[str, list[Message]],
    as_expected: bool | None,
) -> None:  # fmt: skip
    """Time limits give no verdict; a wrong ledger is a broken promise on every machine."""
    judgement = judge_trial(expected, promise, verdict, found, **more)
    assert judgement.as_expected is as_expected
    assert as_expected is not None or re.search(r"^load [\d.]+ on \d+ CPU", str(judgement.problems[-1]))


def test_a_seed_repeats_its_plans(testbed: Testbed) -> None:
    """The same seed, the same disturbances, of each target one at a time; sooner or later each kind, for both shops."""

    def told(planned: list[Injection]) -> list[tuple[Message, float, float]]:
        return [(each.text, each.begins_s, each.lasts_s) for each in planned]

    random, again = Random(1), Random(1)
    plans = [plan_injections(random, testbed) for _ in range(300)]
    assert [told(planned) for planned in plans] == [told(plan_injections(again, testbed)) for _ in plans]
    assert {len({each.target for each in planned}) for planned in plans} == {1, 2, 3, 4}
    assert all(len({each.target for each in planned}) == len(planned) for planned in plans)
    every = {repr(each.text) for shop in testbed.shops for each in injections(testbed, shop)}
    assert {repr(each.text) for planned in plans for each in planned} == every
    assert len(every) == 20  # eight for each shop, four for the servers


# What a fault looks like: the picture while it is played, the table at the end, and its records judged again.


def test_the_table_says_what_is_not_as_expected() -> None:
    """The longest row fits into 80 columns and says whether it is as expected; a scenario is named once."""
    record = replace(Record.read(DATA / "rush-none.json"), guard="etcd-unfenced")
    rows = [
        replace(record, scenario=scenario, expectation=Expectation("EXACT", as_expected, []))
        for scenario, as_expected in (("pause-holder", False), ("pause-holder", True), ("delayed-write", None))
    ]
    text = printed(results_table(rows, plain=True))
    begin, end = ["etcd-unfenced", "EXACT"], ["27", "19", "0.4"]
    oversold = [*begin, "OVERSOLD", "by", "12", *end]
    expected = [
        ["pause-holder", *oversold, "NO"], [*oversold, "yes"], ["delayed-write", *begin, "no", "verdict", *end, "-"],
    ]  # fmt: skip
    assert [line.split() for line in text.splitlines()[-3:]] == expected
    assert text.isascii()


SAMPLE = Sample(1234.0, 288, 12, "shop-a", 10, 1, 2, ["shop-a"])  # shop-a has frozen while it held the lock


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (SAMPLE, [r"288 left \+ 12 sold = 300", "shop-a.*lease 1 s  FROZEN  holds  10 wait"]),
        (replace(SAMPLE, orders=35, waiters=0), [r"288 left \+ 35 sold = 323", "FROZEN  holds$"]),
        (Sample(1.0, None, None, None, None, dead=["shop-a"]), ["Redis is un", "shop-a.*DEAD", "etcd.*unavailable"]),
        (replace(SAMPLE, holder="redis-lock", waiters=None, frozen=[]), ["= 300", "redis-lock.*lease 1 s  holds$"]),
    ],
)
def test_the_room_sees_what_happens(seen: Sample, words: list[str]) -> None:
    """A line for each: sum, holder, frozen and dead shops; nothing is claimed of what cannot be seen; in 80 columns."""
    _, *lines = printed(sale_picture("pause-holder, etcd", seen, 300)).splitlines()
    assert [line for line, word in zip(lines, words, strict=True) if not re.search(word, line.rstrip())] == []
    assert max(map(len, lines)) <= 80


# `audit`: the command that judges records again.


def judged(file: Path) -> Result:
    return CliRunner().invoke(audit_records, [str(file)])


def test_a_record_is_judged_and_what_is_wrong_is_listed() -> None:
    """Overlaps are listed with both buyers, and what each write lost, whose sales; long lists are cut, visibly."""
    exact, none = (judged(DATA / f"rush-{guard}.json") for guard in ("etcd", "none"))
    assert exact.exit_code == 0
    assert "sold 8 + stock 0 = 8 of 8, 0 lost updates" in exact.output
    assert exact.output.splitlines()[-1] == "  findings: none"
    assert none.exit_code == 0  # it promised nothing
    assert " pairs of critical sections open at once:" in none.output
    assert re.search(r"^    \S+ of buyer-\S+ .* wrote 7 over \d: \d lost up.*, sold to buyer-", none.output, re.M)
    assert re.search(r"^    and \d+ more$", none.output, re.MULTILINE)
    assert "findings: sold + stock is 27 of 8; " in none.output


def test_a_broken_promise_is_the_exit_code(tmp_path: Path) -> None:
    """What is missing, and what contradicts real time or the fence, is named with buyers and times."""
    record = Record.read(DATA / "rush-etcd.json")
    first, second = record.ledger[:2]
    answers = {answer.order: answer for answer in record.answers}
    late = answers[second.order].answered_ms + 50
    record.answers = [replace(each, sent_ms=late) if each.order == first.order else each for each in record.answers]
    record.answers.append(Answer("ada", Outcome.SOLD_OUT, "shop-a", sent_ms=0.0, answered_ms=1.0, status=409))
    record.answers.append(Answer("bob", Outcome.ERROR, "shop-a", sent_ms=2000.0, answered_ms=2001.0))
    writer, reader = (next(each for each in record.sections if each.order == entry.order) for entry in (first, second))
    read = replace(reader, outcome="unavailable", points=(Point("read", 1, 60.0),))
    record.sections = [read, replace(writer, commit_ms=70.0, left_ms=80.0)]
    record.write(tmp_path / "record.json")
    done = judged(tmp_path / "record.json")
    assert done.exit_code == 1
    lines = done.output.splitlines()
    for title, named in (
        ("  1 buyer without an answer:", ["bob"]),
        ("  1 order out of real-time order:", [first.buyer, f"{late:.1f} ms", second.buyer]),
        ('  1 answer "sold out" too early:', ["ada", "1.0 ms"]),
        ("  1 write past the fence:", [writer.buyer, "70.0 ms", reader.buyer, "60.0 ms"]),
    ):
        line = lines[lines.index(title) + 1]
        assert [word for word in named if word not in line] == []
    lost = record.ledger.pop()
    record.write(tmp_path / "record.json")
    assert (
        f"1 order acknowledged but missing:\n    {lost.order} of {lost.buyer}"
        in judged(tmp_path / "record.json").output
    )
