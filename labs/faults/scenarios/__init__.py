"""The scenarios: those of this folder, and those in ``scenarios.py`` of other labs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from app.contract import labs
from labs.faults.scenario import Scenario


@cache
def scenarios() -> dict[str, type[Scenario]]:
    """All of them by name, in the order in which they are played."""
    classes = {each.name: each for each in labs.classes(__name__, "scenarios", Scenario) if hasattr(each, "name")}
    return dict(sorted(classes.items(), key=lambda item: (item[1].order, item[0])))


def groups() -> dict[str, Sequence[str]]:
    """The names of the scenarios about one thing, by the word for it."""
    words = dict.fromkeys(each.group for each in scenarios().values() if each.group)
    return {word: [name for name, each in scenarios().items() if each.group == word] for word in words}
