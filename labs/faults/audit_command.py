"""`audit`: kept records, judged again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from app.contract.orders import Order
from app.contract.outcomes import Promise
from app.contract.verdict import Kind, sentence_of
from loadtest.results.audit import Audit, audit
from loadtest.results.fence import PastFence
from loadtest.results.history import OutOfOrder, Premature
from loadtest.results.losses import Write
from loadtest.results.overlaps import Overlap
from loadtest.results.record import CriticalSection, Record
from loadtest.results.text import pluralize

_MOST = 10  # lines of a kind


@click.command("audit")
@click.argument("records", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def audit_records(records: Sequence[Path]) -> None:
    """Judge kept records again: overlaps, orders out of place, answers out of time.

    Exits with 1 if a record of an exact guard shows what it must not show.
    """
    broken = False
    for path in records:
        record = Record.read(path)
        audited = audit(record)
        click.echo(f"{path}: {' under '.join(filter(None, (record.scenario, record.guard)))}, {record.started}")
        for line in audit_lines(audited):
            click.echo(f"  {line}")
        if record.verdict["kind"] == Kind.NONE:
            click.echo(f"  {sentence_of(record.verdict['findings'])}")
        else:
            broken |= record.promise == Promise.EXACT and bool(audited.findings())
    sys.exit(1 if broken else 0)


def audit_lines(audited: Audit) -> Iterator[str]:
    """The findings in words."""
    total = audited.sold + audited.stock_left
    lost = pluralize(audited.lost_updates, "lost update")
    yield f"sold {audited.sold} + stock {audited.stock_left} = {total} of {audited.stock}, {lost}"
    yield f"longest stall {audited.longest_stall_ms / 1000:.2f} s"
    pairs = map(_overlap, audited.overlaps.pairs)
    yield from _listed("pair", " of critical sections open at once", pairs, count=audited.overlaps.count)
    yield from _listed("write", " that lost sales", map(_losing, audited.losses.losing))
    yield from _listed("critical section", " whose process died inside", map(_section, audited.unfinished))
    late = (f"{_order(row)} after {_order(highest)}" for row, highest in audited.token_regressions)
    yield from _listed("order", " out of token order", late)
    yield from _listed("order", " out of real-time order", map(_out_of_order, audited.out_of_order))
    yield from _listed("answer", ' "sold out" too early', map(_premature, audited.premature))
    yield from _listed("write", " past the fence", map(_past_fence, audited.past_fence))
    yield from _listed("order", " acknowledged but missing", (f"{row.order} of {row.buyer}" for row in audited.missing))
    yield from _listed("order", " sold but denied", map(_order, audited.denied))
    yield from _listed("order", " stored but unacknowledged", map(_order, audited.unacknowledged))
    yield from _listed("duplicate", "", map(_order, audited.duplicates))
    yield from _listed("buyer", " without an answer", audited.unanswered)
    yield f"findings: {'; '.join(map(str, audited.findings())) or 'none'}"


def _listed(noun: str, what: str, rows: Iterable[str], count: int | None = None) -> Iterator[str]:
    """The number of rows and the first of them; `count` if `rows` are not all."""
    every = list(rows)
    count = len(every) if count is None else count
    if every:
        yield f"{pluralize(count, noun)}{what}:"
        yield from (f"  {row}" for row in every[:_MOST])
    if count > _MOST:
        yield f"  and {count - _MOST} more"


def _overlap(overlap: Overlap) -> str:
    times = f"{overlap.from_ms:.1f} to {overlap.to_ms:.1f} ms"
    return f"{_section(overlap.first)} and {_section(overlap.second)}, {times}"


def _losing(write: Write) -> str:
    buyers = ", ".join(entry.buyer for entry in write.overwrote)
    lost = pluralize(write.lost, "lost update")
    return f"{_order(write.entry)} wrote {write.after} over {write.before}: {lost}, sold to {buyers}"


def _out_of_order(pair: OutOfOrder) -> str:
    earlier = f"{_order(pair.earlier)}, who was answered at {pair.answered_ms:.1f} ms"
    return f"{_order(pair.order)}, who sent nothing before {pair.sent_ms:.1f} ms, stands before {earlier}"


def _premature(premature: Premature) -> str:
    answer, order = premature.answer, premature.order
    refusal = f'{answer.buyer} was told "sold out" by {answer.instance} at {answer.answered_ms:.1f} ms'
    if order is None:
        return f"{refusal}, and an item was never sold"
    return f"{refusal}, before {order.buyer} sent anything, at {premature.sent_ms:.1f} ms, and got {order.order}"


def _past_fence(late: PastFence) -> str:
    read = f"{_section(late.read)} had its read answered at {late.read_ms:.1f} ms"
    return f"{_section(late.write)} sent its write at {late.sent_ms:.1f} ms, after {read}"


def _section(section: CriticalSection) -> str:
    return f"{section.buyer} in {section.instance} (token {section.token}, {section.outcome})"


def _order(row: Order) -> str:
    return f"{row.order} of {row.buyer} from {row.instance} (token {row.token})"
