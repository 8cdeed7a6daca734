"""Write docs/lock-api.md: each public name of `lock` and `lock.aio`, from its docstrings.

python scripts/lock_api.py           write it
python scripts/lock_api.py --check   exit 1 if it is not up to date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import lock  # noqa: E402  (after the path to it)
from lock import aio  # noqa: E402

PAGE = ROOT / "docs" / "lock-api.md"
HEAD = """# `lock`: every public name

Written by `python scripts/lock_api.py` from the docstrings. Times are seconds. What the names are for:
[lock.md](lock.md) and [lock-recipes.md](lock-recipes.md).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, *module(lock, "lock"), *module(aio, "lock.aio")]
    return "\n".join(parts).rstrip() + "\n"


def module(of: ModuleType, name: str) -> Iterator[str]:
    """A chapter: each public name of a module."""
    yield f"## `{name}`\n"
    for each in of.__all__:
        thing = getattr(of, each)
        if inspect.isclass(thing):
            yield from a_class(f"{name}.{each}", thing)
        elif inspect.isfunction(thing):
            yield f"### `{name}.{each}{signature(thing)}`\n\n{told(thing)}\n"
        else:  # the type of a callable
            yield f"### `{name}.{each}`\n\nA type, see `lock.connect`: `{clean(str(thing))}`.\n"


def a_class(name: str, thing: type) -> Iterator[str]:
    """A class, and each public attribute and method that it or a class of ours before it has."""
    yield f"### `{name}{constructor(thing)}`\n\n{told(thing)}{inherited(thing)}\n"
    if issubclass(thing, BaseException):
        return
    for each, member in inspect.getmembers(thing):
        if each.startswith("_") or not mine(thing, each):
            continue
        is_step = inspect.iscoroutinefunction(member) and not thing.__module__.startswith("lock.aio")
        if (inspect.isfunction(member) or inspect.ismethod(member)) and not is_step:
            doc = told(member, required=False)
            if not doc.startswith("For "):  # the recipes, lock.aio
                awaited = "async " if inspect.iscoroutinefunction(member) else ""
                yield f"- **`{awaited}{each}{signature(member)}`** {indented(doc)}"
    yield ""


def inherited(thing: type) -> str:
    """The attributes that classes of ours before it tell of, and it does not."""
    own, *bases = (told(base, required=False) for base in thing.__mro__ if base.__module__.startswith("lock"))
    items: dict[str, str] = {}
    for base in bases:
        attributes = base.partition("*Attributes*")[2]
        for item, attribute in re.findall(r"^(- `(\w+)`: .*(?:\n +.*)*)", attributes, re.MULTILINE):
            if f"- `{attribute}`:" not in own:
                items.setdefault(attribute, f"\n{item}")
    head = "\n\n*Attributes*\n" if items and "*Attributes*" not in own else ""
    return head + "".join(items.values())


def constructor(thing: type) -> str:
    """The parameters of a class that users make, the fields of a tuple; empty for errors and what the library makes."""
    if issubclass(thing, BaseException):
        return ""
    parameters = inspect.signature(thing).parameters
    if issubclass(thing, tuple):
        fields = [(field, getattr(kind, "__forward_arg__", kind)) for field, kind in thing.__annotations__.items()]
        return f"({', '.join(f'{field}: {kind}' for field, kind in fields)})"
    if "Args:" not in (inspect.getdoc(thing) or "") and next(iter(parameters), "") != "session":
        return ""
    return "" if "queue" in parameters else signature(thing).removesuffix(" -> None")


def mine(thing: type, member: str) -> bool:
    """Whether a class of `lock` defines the member, and not Python."""
    return any(member in vars(base) for base in thing.__mro__ if base.__module__.startswith("lock"))


def told(thing: Any, *, required: bool = True) -> str:
    """The docstring as Markdown: sections become lists."""
    doc = inspect.getdoc(thing) or ""
    assert doc or not required, thing
    doc = re.sub(r"^(Args|Attributes|Raises|Returns):$", r"*\1*\n", doc, flags=re.MULTILINE)
    doc = re.sub(r"^    (\w+(?:, \w+)*): ", r"- `\1`: ", doc, flags=re.MULTILINE)
    return re.sub(r"``(.+?)``", r"`\1`", doc)


def signature(thing: Any) -> str:
    """Parameters and what is returned, without `self` and the modules of types."""
    found = inspect.signature(thing)
    parameters = [each for each in found.parameters.values() if each.name not in ("self", "_cls")]
    return clean(str(found.replace(parameters=parameters)))


def clean(text: str) -> str:
    """Types without their modules."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r"\b(?:sync|lock|typing|collections\.abc|asyncio)(?:\.\w+)*\.(?=\w)", "", text)


def indented(text: str) -> str:
    """As the body of a list item."""
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE} is not up to date: run {sys.argv[0]}")
    PAGE.write_text(page(), encoding="utf-8")
