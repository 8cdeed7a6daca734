"""Wrong locks for study. No list of the shop has them: a stepped purchase alone is made under one.

A lab has them in ``wrong/``: guards, one in a module, each with two more attributes.

- ``found``: where it was seen, a text
- ``mend``: the lines that are wrong, and those that mend them
"""

from __future__ import annotations

from functools import cache
from inspect import isabstract

from app.contract import labs
from app.guards.base import Guard


@cache
def mistakes() -> dict[str, type[Guard]]:
    """All of them, by name, in the order of their files."""
    found: dict[str, type[Guard]] = {}
    for module in labs.modules("wrong/*"):
        for each in vars(module).values():
            if (
                isinstance(each, type)
                and issubclass(each, Guard)
                and not isabstract(each)
                and each.__module__ == module.__name__
            ):
                found[each.name] = each
    return found
