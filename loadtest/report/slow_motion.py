"""Slow motion in a report: the board's player with the records it plays, inside the page.

The page's policy allows this one script, by its hash. If the board's files are not installed, as beside Locust
alone, the report has no slow motion.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.results.record import CriticalSection, Record

STATIC = Path(__file__).parents[2] / "app/board/static/slow"
SCRIPTS = ("language.js", "texts.js", "losses.js", "moves.js", "code.js", "stage.js", "player.js")
UNPACK = Path(__file__).with_name("templates") / "slow_motion.js"
SEEN = ("buyer", "instance", "token", "outcome", "cause")
TIMES = ("entered_ms", "read_ms", "commit_ms", "left_ms")
COLUMNS = (*SEEN, *TIMES, "line", "stock", "stock_read")  # of a section, as UNPACK names them


@dataclass(frozen=True)
class SlowMotion:
    """The part of a page: style, script, and what it plays, which all stand in the page as they are."""

    style: str
    script: str
    data: str

    @classmethod
    def of(cls, records: Iterable[Record]) -> SlowMotion | None:
        """The player of those records that have critical sections; None if there are none."""
        films = [_film(record) for record in records if record.sections]
        if not films:
            return None
        style = (STATIC / "player.css").read_text(encoding="utf-8")
        parts = [(STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS] + [UNPACK.read_text(encoding="utf-8")]
        script = "\n".join(re.sub(r"^import .*\n|^export (?=\w)", "", part, flags=re.MULTILINE) for part in parts)
        data = json.dumps({"columns": COLUMNS, "films": films}, separators=(",", ":"))
        return cls(style, script, data.replace("<", "\\u003c"))  # no text may end the element

    @property
    def policy(self) -> str:
        """The source expression of the script for Content-Security-Policy."""
        return "sha256-" + base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()


def _film(record: Record) -> dict[str, Any]:
    """What is needed of a record, packed: a rush of 500 buyers takes 80 kB."""
    places = {order.order: place for place, order in enumerate(record.ledger)}
    source = record.source
    return {
        "title": ", ".join(filter(None, [record.scenario, record.guard])),
        "guard": record.guard,
        "stock": record.stock,
        "source": source and {"file": source.file, "first_line": source.first_line, "text": source.text},
        "orders": len(record.ledger),
        "verdict": {name: record.verdict.get(name) for name in ("kind", "oversold", "undersold")},
        "sections": [[*_row(section), places.get(section.order), _points(section)] for section in record.sections],
        "answers": [[each.buyer, each.instance, each.sent_ms, each.answered_ms] for each in record.answers],
    }


def _row(section: CriticalSection) -> list[Any]:
    return [getattr(section, name) for name in COLUMNS]


def _points(section: CriticalSection) -> list[list[Any]]:
    return [[point.name, point.line, point.at_ms] for point in section.points]
