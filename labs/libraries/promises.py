"""What the documentation of each library promises for a column, from ``promises.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("promises.json")


@dataclass(frozen=True)
class LibraryPromise:
    """A sentence of a library's documentation.

    Attributes:
        claims: False where it says that this is not so.
        quote: its words.
        page: where they stand.
    """

    claims: bool
    quote: str
    page: str


@cache
def promises_of(library: str) -> dict[str, LibraryPromise]:
    """The promise by column, as far as there is one."""
    found = _read().get(library, {}).get("promises", {})
    return {column: LibraryPromise(each["claims"], each["quote"], each["page"]) for column, each in found.items()}


def pages_of(library: str) -> str:
    """The pages and their version that were read for claims."""
    return str(_read().get(library, {}).get("pages", ""))


def note_of(library: str) -> str:
    """How it is used here, where its documentation leaves a choice."""
    return str(_read().get(library, {}).get("note", ""))


@cache
def _read() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
