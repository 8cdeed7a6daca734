"""The scenarios: those of this folder, and those in ``scenarios.py`` of other labs.

A lab with its own sale and judge has no `Scenario` there, but ``GROUP``, the word for all its faults; ``FAULTS``: what
each does, by name; and `play(names, screen, *, seed, language)`, which plays some, shows the results, and returns for
each sale something with `as_expected`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType

from app.contract import labs
from labs.faults.scenario import Scenario


@cache
def scenarios() -> dict[str, type[Scenario]]:
    """All of them by name, in the order in which they are played."""
    classes = {each.name: each for each in labs.classes(__name__, "scenarios", Scenario) if hasattr(each, "name")}
    return dict(sorted(classes.items(), key=lambda item: (item[1].sort_key, item[0])))


def own_sales() -> list[ModuleType]:
    """The labs' modules whose faults have a sale of their own."""
    return [module for module in labs.modules("scenarios") if hasattr(module, "FAULTS")]


def groups() -> dict[str, Sequence[str]]:
    """The names of the scenarios about one thing, by the word for it."""
    words = dict.fromkeys(each.group for each in scenarios().values() if each.group)
    listed = {word: [name for name, each in scenarios().items() if each.group == word] for word in words}
    return listed | {module.GROUP: list(module.FAULTS) for module in own_sales()}


def summaries() -> dict[str, str]:
    """What each fault does, by its name, in the order in which they are played."""
    own = {name: summary for module in own_sales() for name, summary in module.FAULTS.items()}
    return {name: each.summary for name, each in scenarios().items()} | own
