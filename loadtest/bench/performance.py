"""docs/performance.md from the JSON file of a run of `make bench`."""

from __future__ import annotations

from loadtest.bench.result import Result


def performance(result: Result) -> str:
    return str(result.bounds)
