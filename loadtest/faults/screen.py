"""What a room sees while a fault is played: the counter, the queue of the lock, and the leases running down."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from loadtest.faults.snapshot import Glance, Lease, Party

_BAR = 24  # characters
_NAME = 12
_LOW_S = 0.7  # a lease that is renewed in time does not get there
_GOOD, _BAD, _QUIET = "green", "bold red", "dim"


def draw(label: str, seen: Glance) -> RenderableType:
    """A picture of at most 80 columns, as high as there are parties, and three."""
    title = Text.assemble((label, "bold"), (f"  {seen.at_ms / 1000:.1f} s", _QUIET))
    rows = Table.grid(padding=(0, 2))
    for name, bar, words in _rows(seen):
        rows.add_row(Text(f"  {name:<{_NAME}}"), bar, words)
    return Group(title, rows)


def _rows(seen: Glance) -> Iterator[tuple[str, RenderableType, Text]]:
    yield "stock", _stock_bar(seen), _stock(seen)
    for party in seen.parties:
        bar = _lease_bar(party.lease) if party.lease else Text(" " * _BAR)
        yield party.name, bar, _party(party)
    if seen.redis_lock:
        yield "Redis lock", _lease_bar(seen.redis_lock), Text(f"held  {seen.redis_lock.left_s:.1f} s left")
    if not seen.etcd:
        yield "etcd", Text(" " * _BAR), Text("is away", _BAD)


def _stock_bar(seen: Glance) -> RenderableType:
    return ProgressBar(total=max(seen.total, 1), completed=seen.stock or 0, width=_BAR)


def _stock(seen: Glance) -> Text:
    if seen.stock is None or seen.orders is None:
        return Text("Redis is away", _BAD)
    total = seen.stock + seen.orders
    style = "" if total == seen.total else _BAD
    return Text.assemble(f"{seen.stock} left + {seen.orders} sold = ", (str(total), style))


def _lease_bar(lease: Lease) -> RenderableType:
    style = _GOOD if lease.left_s > _LOW_S else _BAD
    return ProgressBar(
        total=lease.granted_s, completed=lease.left_s, width=_BAR, complete_style=style, finished_style=style
    )


def _party(party: Party) -> Text:
    lease = "" if party.lease is None else f"lease {party.lease.left_s:.1f} s"
    words = [
        (lease, ""),
        (party.state.upper(), _BAD),
        ("holds" if party.holds else "", "bold green"),
        (f"{party.waiters} wait" if party.waiters else "", _QUIET),
    ]
    return Text("  ").join(Text(*each) for each in words if each[0])
