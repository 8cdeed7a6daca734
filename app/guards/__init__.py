"""The guards: what stands around a purchase, one in each module. A new file here is a new guard."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from inspect import isabstract

from app.contract import labs
from app.guards.base import Guard, Tools

__all__ = ["DEFAULT", "Guard", "Tools", "guards"]

DEFAULT = "etcd"


@cache
def guards() -> dict[str, type[Guard]]:
    """The guards in this folder and in ``shop.py`` of each lab, by name, in the order in which they are shown.

    Raises:
        ValueError: two of them have one name.
    """
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    found: dict[str, type[Guard]] = {}
    for module in [*modules, *labs.modules("shop")]:
        for each in vars(module).values():
            # Of the true type: on Python 3.10, `dict[str, int]` passes for an instance of `type`.
            is_guard = issubclass(type(each), type) and issubclass(each, Guard) and not isabstract(each)
            if is_guard and found.setdefault(each.name, each) is not each:
                raise ValueError(f"two guards are named {each.name!r}: {found[each.name]} and {each}")
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))
