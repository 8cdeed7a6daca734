"""The record that a rush leaves: with critical sections where the shops record them."""

from __future__ import annotations

from pathlib import Path

from loadtest.results.audit import audit
from loadtest.results.record import Record
from loadtest.stack.stack import Stack
from tests.support.rushing import Finished, environment

SMALL = ["--headless", "--users=40", "--spawn-rate=40", "--stock=15", "--guards", "none", "etcd"]


def test_each_run_leaves_its_record(stack: Stack, tmp_path: Path) -> None:
    """Answers, ledger and critical sections of each guard are kept apart, and the audit agrees with the verdict."""
    rush = Finished(environment(stack, FLASHSALE_SECTION_LOG=str(stack.section_log)), tmp_path, *SMALL, "--hold-ms=2")
    for guard, run in rush.runs().items():
        record = Record.read(tmp_path / "records" / f"{guard}.json")
        assert (record.guard, record.verdict["verdict"], len(record.answers)) == (guard, run.verdict, 40)
        assert len(record.ledger) == run.orders
        assert {row.order for row in record.ledger} <= {section.order for section in record.sections}
        assert {section.guard for section in record.sections} == {guard}
        result = audit(record)
        assert (result.lost_updates, len(result.missing)) == (run.lost_updates, 0)
        assert bool(result.raced) == (guard == "none")


def test_the_sale_is_sampled_while_it_goes(stack: Stack, tmp_path: Path) -> None:
    """A rush that lasts has samples of stock, orders and queue, which agree with each other under a lock."""
    Finished(environment(stack), tmp_path, *SMALL[:-2], "etcd", "--hold-ms=50")
    samples = Record.read(tmp_path / "records" / "etcd.json").samples
    assert len(samples) >= 2
    assert [sample.at_ms for sample in samples] == sorted(sample.at_ms for sample in samples)
    for sample in samples:
        assert sample.stock is not None
        assert sample.orders is not None
        assert 15 <= sample.stock + sample.orders <= 16  # it may be asked between a read and a write
    assert max(sample.waiters or 0 for sample in samples) > 10


def test_a_rush_without_a_section_log_has_no_sections(stack: Stack, tmp_path: Path) -> None:
    """Where nobody says where the section log is, answers and ledger are kept alone."""
    Finished(environment(stack), tmp_path, *SMALL)
    record = Record.read(tmp_path / "records" / "etcd.json")
    assert (len(record.answers), len(record.ledger), record.sections) == (40, 15, [])
