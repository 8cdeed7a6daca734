"""The scenarios: those of this folder, and those in ``scenarios.py`` of other labs."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from inspect import isabstract

from app.contract import labs
from labs.faults.scenario import Scenario


@cache
def scenarios() -> dict[str, type[Scenario]]:
    """All of them by name, in the order in which they are played."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    found = {
        each.name: each
        for module in [*modules, *labs.modules("scenarios")]
        for each in vars(module).values()
        if issubclass(type(each), type)
        and issubclass(each, Scenario)
        and hasattr(each, "name")
        and not isabstract(each)
    }
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def groups() -> dict[str, Sequence[str]]:
    """The names of the scenarios about one thing, by the word for it."""
    words = dict.fromkeys(each.group for each in scenarios().values() if each.group)
    return {word: [name for name, each in scenarios().items() if each.group == word] for word in words}
