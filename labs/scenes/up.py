"""`up` sells three items, so that a scene can try three guards at one freeze."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from labs.scenes.stage import ITEMS
from loadtest.stack.stack import Stack

OPTIONS: list[Any] = []


def init_stack(stack: Stack, options: Mapping[str, Any]) -> None:
    """Offer as many items, unless the environment says how many."""
    if not os.environ.get("FLASHSALE_ITEMS"):
        for process in (*stack.instances, *([stack.board] if stack.board else [])):
            process.env["FLASHSALE_ITEMS"] = str(ITEMS)
