"""Find the labs: each is a folder in ``labs/`` and can be deleted. The core names none of them.

A lab has any of ``shop.py`` with `init_app(app)`, ``commands.py`` with click commands, ``scenarios.py`` with faults,
``board.py`` with `init_app(app, settings)`, see `app.board`, ``up.py`` with further ``OPTIONS`` of the command `up` and
`init_stack(stack, options)`, which gets the values of all. ``texts.json`` has the Chinese for the sentences of its
scenarios, see `loadtest.language`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

LABS = Path(__file__).resolve().parents[2] / "labs"


def modules(part: str) -> Iterator[ModuleType]:
    """Import ``labs.NAME.PART`` for each lab that has such a module, in the order of their names."""
    for path in sorted(LABS.glob(f"*/{part}.py")):
        yield import_module(f"labs.{path.parent.name}.{part}")
