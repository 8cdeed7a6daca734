"""Wrong locks for study. No list of the shop has them: a stepped purchase alone is made under one.

A lab has them in ``wrong/``: guards, one in a module, with the attributes that `labs.mistakes.guard.Mistake` has.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import unified_diff
from functools import cache
from inspect import isabstract
from pathlib import Path
from typing import Any

from app.contract import labs
from app.guards.base import Guard
from labs.steps.guard_files import GuardFile


@cache
def mistakes() -> dict[str, type[Guard]]:
    """All of them, by name, in the order of their files."""
    kinds = [
        each
        for module in labs.modules("wrong/*")
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Guard) and each.__module__ == module.__name__
    ]
    return {each.name: each for each in kinds if not isabstract(each)}


@cache
def mended(kind: type[Guard]) -> type[Guard]:
    """The same guard with its own ``mend``, named NAME-mended."""
    mistake: Any = kind
    path = Path(inspect.getfile(kind))
    wrong, _ = mistake.mend
    if path.read_text(encoding="utf-8").count(wrong) != 2:  # in `mend` and in the code
        raise ValueError(f"{path.name}: the wrong lines in mend have to be those of the code, exactly once: {wrong!r}")
    return GuardFile(str(path), kind.name, tuple(mistake.mend), f"{kind.name}-mended").load()


def diff_of(kind: type[Guard]) -> Iterator[str]:
    """The mend as a unified diff of `buy`."""
    before, after = (inspect.getsource(each.buy).splitlines() for each in (kind, mended(kind)))
    return unified_diff(before, after, kind.name, mended(kind).name, lineterm="", n=1)
