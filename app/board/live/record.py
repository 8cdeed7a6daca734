"""A run as a record that can be kept, opened in the page, and scrubbed in time.

The format is that of the records that the load test writes (``stock-flash-sale/record``, version 1). What only the
buyers know is not in it: ``answers`` is empty.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from app.board.live.runs import Run
from app.board.sources.ledger import Order
from app.board.sources.section_tail import Section


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
        "verdict": {**summary, "stock_left": run.snapshot.stock},
        "answers": [],
        "ledger": [ledger_row(run, order) for order in run.orders],
        "sections": [section_row(run, section) for section in run.sections.values()],
        "samples": [asdict(sample) for sample in run.samples],
        "events": [{"at_ms": 0.0, "text": f"reset to a stock of {run.snapshot.initial}"}],
    }


def ledger_row(run: Run, order: Order) -> dict[str, Any]:
    """One order, with its time in milliseconds since the reset."""
    return {**asdict(order), "at_ms": round(order.at_ms - run.began_s * 1000, 3)}


def section_row(run: Run, section: Section) -> dict[str, Any]:
    """One critical section, with its times in milliseconds since the reset."""
    return {
        "order": section.order,
        "item": section.item,
        "buyer": section.buyer,
        "instance": section.instance,
        "pid": section.pid,
        "thread": section.thread,
        "guard": section.guard,
        "token": section.token,
        "entered_ms": run.ms(section.entered),
        "read_ms": run.ms(section.read),
        "commit_ms": run.ms(section.commit),
        "left_ms": run.ms(section.left),
        "outcome": section.outcome,
        "cause": section.cause,
    }
