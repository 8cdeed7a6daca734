"""What a scene yields. Texts are keys of ``static/texts.json``, with values that may be keys as well."""

from __future__ import annotations

from typing import Any, NamedTuple


class Phase(NamedTuple):
    """What happens now, or if it `waits`, when the teacher says so."""

    text: str
    values: dict[str, Any]
    waits: bool = False


class Picture(NamedTuple):
    """The columns from now on.

    Each is ``{"guard", "source": {"file", "first_line", "text"}, "markers": [...]}``, and a marker
    ``{"buyer", "line", "text", "values", "tone"}``.
    """

    columns: list[dict[str, Any]]


class Countdown(NamedTuple):
    """What is left of the lease of an instance, in whole seconds as etcd says; None when it has ended."""

    instance: str
    left_s: int | None
    granted_s: int


class Result(NamedTuple):
    """How one act ended; `kind` is that of `app.contract.verdict`, of which the value `n` tells by how many."""

    guard: str
    text: str
    values: dict[str, Any]
    kind: str


Step = Phase | Picture | Countdown | Result


def judged(guard: str, text: str, values: dict[str, Any], sale: dict[str, Any]) -> Result:
    """The result of a sale as ``GET /stock`` shows it."""
    return Result(guard, text, {**values, "n": abs(sale["orders"] - sale["initial"])}, sale["kind"])
