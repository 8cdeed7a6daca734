"""A run as a record, in the format of the load test (``stock-flash-sale/record``, version 1).

Only the buyers know their answers, so ``answers`` is empty.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from app.board.live.runs import Run
from app.board.sources.ledger import Order
from app.board.sources.section_tail import Section

_ORDER = ("order", "buyer", "instance", "guard", "token")
_SECTION = ("order", "item", "buyer", "instance", "pid", "thread", "guard", "token", "outcome", "cause")
_TIMES = ("entered", "read", "commit", "left")


def record_of(run: Run, promises: dict[str, str]) -> dict[str, Any]:
    """`run` as a record; `promises` are what the guards promise, by name."""
    summary = run.summary()
    return {
        "format": "stock-flash-sale/record",
        "version": 1,
        "kind": "rush",
        "scenario": None,
        "expectation": None,
        "guard": run.guard,
        "promise": promises.get(run.guard or "", "none"),
        "stock": run.snapshot.initial,
        "buyers": None,
        "hold_ms": None,
        "started": datetime.fromtimestamp(run.began_s, timezone.utc).isoformat(),
        "versions": {},
        "verdict": {**summary, "stock_left": run.snapshot.unsold},
        "answers": [],
        "ledger": [ledger_row(run, order) for order in run.orders],
        "sections": [section_row(run, section) for section in run.sections.values()],
        "samples": [asdict(sample) for sample in run.samples],
        "events": [{"at_ms": 0.0, "text": f"reset to a stock of {run.snapshot.initial}"}],
    }


def ledger_row(run: Run, order: Order) -> dict[str, Any]:
    """One order, with its time in milliseconds since the reset."""
    return {name: getattr(order, name) for name in _ORDER} | {"at_ms": round(order.at_ms - run.began_s * 1000, 3)}


def section_row(run: Run, section: Section) -> dict[str, Any]:
    """One critical section, with its times in milliseconds since the reset."""
    times = {f"{name}_ms": run.ms(getattr(section, name)) for name in _TIMES}
    return {name: getattr(section, name) for name in _SECTION} | times
