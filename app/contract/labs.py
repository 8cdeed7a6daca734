"""Find the labs: each is a folder in ``labs/`` and can be deleted. The core names none of them.

A lab has any of these files:

- ``shop.py``: `init_app(app)`
- ``guards/``: a guard in each module
- ``board.py``: `init_app(app, settings)`, see `app.board`
- ``up.py``: ``OPTIONS`` of the command `up`, and `init_stack(stack, options)` with the values of all options
- ``commands.py``: click commands; ``scenarios.py``: faults; ``targets.mk``: targets of `make`
- ``texts.json``: the Chinese for the texts of its scenarios, see `loadtest.language`
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any

LABS = Path(__file__).resolve().parents[2] / "labs"


def modules(part: str) -> Iterator[ModuleType]:
    """Import ``labs/NAME/PART.py`` of each lab that has it, sorted by path; ``guards/*`` is all of a folder."""
    for path in sorted(LABS.glob(f"*/{part}.py")):
        if path.stem != "__init__":
            yield import_module(".".join(path.relative_to(LABS.parent).with_suffix("").parts))


@cache
def texts() -> dict[str, str]:
    """The texts of the labs' scenarios: the Chinese by the English."""
    return {
        english: chinese
        for path in sorted(LABS.glob("*/texts.json"))
        for english, chinese in json.loads(path.read_text(encoding="utf-8")).items()
    }


def classes(package: str, part: str, base: type[Any]) -> Iterator[type[Any]]:
    """The concrete classes of a kind in the modules of a package, then in those `modules` of the labs."""
    names = [module.name for module in pkgutil.iter_modules(import_module(package).__path__)]
    for module in [*(import_module(f"{package}.{name}") for name in names), *modules(part)]:
        for each in vars(module).values():
            # Of the true type: on Python 3.10, `dict[str, int]` passes for an instance of `type`.
            if issubclass(type(each), type) and issubclass(each, base) and not isabstract(each):
                yield each
