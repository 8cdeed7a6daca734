"""Find the labs: each is a folder in ``labs/`` and can be deleted. The core names none of them.

A lab has any of ``shop.py`` with `init_app(app)`, ``commands.py`` with click commands, ``scenarios.py`` with faults,
``board.py`` with `init_app(app, settings)`, see `app.board`, ``up.py`` with further ``OPTIONS`` of the command `up` and
`init_stack(stack, options)`, which gets the values of all. ``texts.json`` has the Chinese for the sentences of its
scenarios, see `loadtest.language`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any

LABS = Path(__file__).resolve().parents[2] / "labs"


def modules(part: str) -> Iterator[ModuleType]:
    """Import ``labs.NAME.PART`` for each lab that has such a module, in the order of their names."""
    for path in sorted(LABS.glob(f"*/{part}.py")):
        yield import_module(f"labs.{path.parent.name}.{part}")


def classes(package: str, part: str, base: type[Any]) -> Iterator[type[Any]]:
    """The concrete classes of a kind in the modules of a package, then in each lab's module of that name."""
    own = [import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(import_module(package).__path__)]
    for module in [*own, *modules(part)]:
        for each in vars(module).values():
            # Of the true type: on Python 3.10, `dict[str, int]` passes for an instance of `type`.
            if issubclass(type(each), type) and issubclass(each, base) and not isabstract(each):
                yield each
