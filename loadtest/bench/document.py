"""The generated blocks of a document, as the tables of docs/performance.md; the text around them is written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadtest.bench.result import BenchResult
from loadtest.bench.tables import grids

_BLOCK = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


def filled(text: str, result: BenchResult) -> str:
    """`text` with what `result` says in each marked block; raises ValueError for a block without a measurement."""
    return fill(text, dict(blocks(result)))


def fill(text: str, made: Mapping[str, str]) -> str:
    """`text` with what was made in each marked block; raises ValueError for a block that was not."""

    def block(found: re.Match[str]) -> str:
        if found[2] not in made:
            raise ValueError(f"the document shows {found[2]}, which was not measured")
        return f"{found[1]}{made[found[2]]}\n{found[3]}"

    return _BLOCK.sub(block, text)


def blocks(result: BenchResult) -> Iterator[tuple[str, str]]:
    """Name and content of each block."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = f"{result.machine['cpus']} CPUs ({result.machine['system']} {result.machine['machine']})"
    yield "machine", f"Measured {result.started} on {machine}; {versions}."
    for grid in grids(result):
        yield grid.name, markdown(grid.headings, grid.rows)
    rows = [[part, *(f"{mib:.0f}" for mib in peaks.values())] for part, peaks in result.peak_mib.items()]
    yield "memory", markdown(["part", "one instance", "etcd", "Redis"], rows)


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
