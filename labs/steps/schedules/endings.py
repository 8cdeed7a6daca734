"""How an order ends wrongly, in words."""

from __future__ import annotations

import json
from pathlib import Path

from labs.steps.schedules.schedule import Ending

TEXTS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))


def sentence_of(ending: Ending, items: int, language: str = "en") -> str:
    """Such as "1 item is sold twice", the worst first."""
    texts = TEXTS[language]
    numbers = {name: getattr(ending, name) for name in ending.ways}
    return texts["comma"].join(
        texts[f"ends.{name}"].split("|")[number != 1 and "|" in texts[f"ends.{name}"]].format(n=number, items=items)
        for name, number in numbers.items()
    )
