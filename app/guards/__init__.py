"""The guards: what stands around a purchase, one in each module. A new file here is a new guard."""

from __future__ import annotations

from functools import cache

from app.contract import labs
from app.guards.base import Guard

__all__ = ["DEFAULT", "Guard", "guards"]

DEFAULT = "etcd"


@cache
def guards() -> dict[str, type[Guard]]:
    """The guards in this folder and in ``guards/`` of each lab, by name, in the order in which they are shown.

    Raises:
        ValueError: two of them have one name.
    """
    classes: dict[str, type[Guard]] = {}
    for each in labs.classes(__name__, "guards/*", Guard):
        if classes.setdefault(each.name, each) is not each:
            raise ValueError(f"two guards are named {each.name!r}: {classes[each.name]} and {each}")
    return dict(sorted(classes.items(), key=lambda item: (item[1].order, item[0])))
