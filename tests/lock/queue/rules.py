"""A custom rule, as docs/lock-recipes.md shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lock import Admission


@dataclass(frozen=True)
class OneKind(Admission):
    """Keys of one kind hold together (etcd issue 12490)."""

    def admits(self, kind: str, ahead: Mapping[str, int]) -> bool:
        return set(ahead) == {kind}
