"""What a fault looks like: the picture while it is played, and the table at the end; in Chinese, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.contract import verdict
from app.contract.outcomes import Outcome
from labs.faults.monitor import HeldLease, Participant, TrialSnapshot
from labs.faults.scenarios import scenarios
from labs.faults.screen import results_table, sale_picture
from loadtest.language import CHINESE, Message, chinese_texts
from loadtest.results import audit
from loadtest.results.record import Expectation, FaultEvent, Record
from tests.support.terminal import printed

DATA = Path(__file__).parents[3] / "tests/data"


def played(scenario: str = "pause-holder", *, as_expected: bool | None = False) -> Record:
    """A sale of 302 of 300 items, with 2.5 s between two of them."""
    record = Record.read(DATA / "rush-etcd.json")
    sold = next(answer for answer in record.answers if answer.outcome is Outcome.SOLD)
    verdict = {**record.verdict, "findings": {"oversold": 27}, "exact": False}
    return replace(
        record,
        scenario=scenario,
        guard="etcd-unfenced",
        stock=300,
        ledger=record.ledger[:1] * 302,
        answers=[replace(sold, sent_ms=at, answered_ms=at) for at in (0.0, 2500.0)],
        verdict=verdict,
        expectation=Expectation("EXACT", as_expected, []),
    )


def test_the_table_says_what_is_not_as_expected() -> None:
    """The longest row fits into 80 columns and says whether it is as expected; a scenario is named once."""
    rows = [played(), played(as_expected=True), played("delayed-write", as_expected=None)]
    text = printed(results_table(rows, plain=True))
    begin, end = ["etcd-unfenced", "EXACT"], ["302", "2", "2.5"]
    oversold = [*begin, "OVERSOLD", "by", "27", *end]
    expected = [
        ["pause-holder", *oversold, "NO"], [*oversold, "yes"], ["delayed-write", *begin, "no", "verdict", *end, "-"],
    ]  # fmt: skip
    assert [line.split() for line in text.splitlines()[-3:]] == expected
    assert text.isascii()


def snapshot(**changes: Any) -> TrialSnapshot:
    """A sale in which shop-a has frozen while it held the lock."""
    frozen = Participant("shop-a", "frozen", HeldLease(1, 2), holds=True, waiters=3)
    seen = TrialSnapshot(
        1234.0, 288, 12, 300, None, [frozen, Participant("shop-b", "", HeldLease(2, 2), waiters=7)], etcd=True
    )
    return replace(seen, **changes)


@pytest.mark.parametrize(
    ("seen", "words", "holder", "waiters"),
    [
        (
            snapshot(),
            ["288 left + 12 sold = 300", "lease 1 s  FROZEN  holds  3 wait", "lease 2 s  7 wait"],
            "shop-a",
            10,
        ),
        (snapshot(orders=35), ["288 left + 35 sold = 323"], "shop-a", 10),
        (snapshot(stock=None, orders=None), ["Redis is unavailable"], "shop-a", 10),
        (snapshot(participants=[Participant("shop-a", "dead")], etcd=False), ["DEAD", "etcd"], None, None),
        (snapshot(redis_lock=HeldLease(1.25, 2)), ["held  1.2 s left"], "redis-lock", None),
    ],
)
def test_the_room_sees_what_happens(
    seen: TrialSnapshot, words: list[str], holder: str | None, waiters: int | None
) -> None:
    """Sum, leases, holder, waiters, frozen and dead shops; nothing is claimed of what cannot be seen; in 80 columns."""
    assert (seen.holder, seen.waiters) == (holder, waiters)
    lines = printed(sale_picture("pause-holder, etcd", seen)).splitlines()
    assert all(any(word in line for line in lines) for word in words)
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 + len(seen.participants) + (seen.redis_lock is not None) + (not seen.etcd)


LABS = Path(__file__).parents[2]
# What makes messages of a text: the methods of a scenario's context, and `Message` itself.
MAKERS = {"Message", "of", "announce", "act", "require", "require_in_time", "wait_for", "_shown", "say", "of_shop"}
MAKERS |= {"MistimedFault", "ScenarioError"}


def texts_of(path: Path) -> Iterator[str]:
    """The texts of messages in a module: what it hands to one that makes them, or has in a variable for that."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        values = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in MAKERS:
            values = node.args
        elif isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for value in values:
            text = value.value if isinstance(value, ast.Constant) else None
            if isinstance(text, str) and re.search("[a-z]{3}.* ", text) and not text.startswith("bold "):
                yield text


def test_every_text_of_a_scenario_has_a_translation() -> None:
    """What is done, required and waited for has one, and so has what each scenario does."""
    sources = [*LABS.glob("*/scenarios.py"), *LABS.glob("faults/**/*.py")]
    texts = {text for path in sources if "tests" not in path.relative_to(LABS).parts for text in texts_of(path)}
    texts |= {each.summary for each in scenarios().values()}
    assert len(texts) > 90
    assert texts - chinese_texts().keys() == set()


def test_no_translation_is_left_over() -> None:
    """Each text of the tables is in the source."""
    sources = [Path(audit.__file__), Path(verdict.__file__), *LABS.glob("**/*.py")]
    source = " ".join(
        " ".join(path.read_text(encoding="utf-8") for path in sources).replace("\\n", " ").split()
    ).lower()
    assert [text for text in chinese_texts() if " ".join(text.split()).lower() not in source] == []


def test_a_kept_record_speaks_both_languages(tmp_path: Path) -> None:
    """Its events and problems are read back as messages, whose values may be messages."""
    record = played()
    frozen = Message.of("{shop} is frozen", shop="shop-a")
    record.events = [FaultEvent(1.0, "{fault}, for {s} s", {"fault": frozen, "s": 1.2})]
    record.expectation = Expectation("EXACT", False, [Message.of("the sale was not over {then}", then=frozen)])
    record.write(tmp_path / "record.json")
    kept = Record.read(tmp_path / "record.json")
    assert (kept.events, kept.expectation) == (record.events, record.expectation)
    assert kept.events[0].message.in_language(CHINESE) == "shop-a 被冻结\uff0c持续 1.2 秒"
