"""The guards: what stands around a purchase, one in each module. A new file here is a new guard.

A file that is no guard is left out: it is named in the log, with what is wrong with it, and all others are there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path

from app.contract.labs import LABS
from app.guards.base import Guard
from app.guards.files import NEEDS, shown, why_not

__all__ = ["DEFAULT", "Guard", "broken", "guards"]

DEFAULT = "etcd"
logger = logging.getLogger(__name__)


@cache
def guards() -> dict[str, type[Guard]]:
    """The guards in this folder and in ``guards/`` of each lab, by name, in the order in which they are shown."""
    classes: dict[str, type[Guard]] = {}
    for path in [*sorted(Path(__file__).parent.glob("*.py")), *sorted(LABS.glob("*/guards/*.py"))]:
        if path.stem != "__init__":
            try:
                _add(path, classes)
            except Exception as error:  # a file may raise anything
                broken()[path.stem] = f"{shown(path)} cannot be used: {why_not(error, path)}"
                logger.warning("%s", broken()[path.stem])
    return dict(sorted(classes.items(), key=lambda item: (item[1].sort_key, item[0])))


@cache
def broken() -> dict[str, str]:
    """What is wrong with the files that were left out, a sentence for each, by the names of the files."""
    return {}


def _add(path: Path, classes: dict[str, type[Guard]]) -> None:
    for kind in _guards_in(path):
        if lacking := [name for name in NEEDS if not hasattr(kind, name)]:
            raise ValueError(f"the class {kind.__name__} has no {' and no '.join(lacking)}")
        if classes.setdefault(kind.name, kind) is not kind:
            raise ValueError(f"a guard named {kind.name!r} is in {classes[kind.name].__module__} already")


def _guards_in(path: Path) -> Iterator[type[Guard]]:
    module = import_module(".".join(path.relative_to(LABS.parent).with_suffix("").parts))
    for each in vars(module).values():
        # Of the true type: on Python 3.10, `dict[str, int]` passes for an instance of `type`.
        if issubclass(type(each), type) and issubclass(each, Guard) and not isabstract(each):
            yield each
