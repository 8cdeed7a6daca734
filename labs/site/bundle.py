"""ES modules as one inline script, because browsers load no module from a disk.

Each module becomes a function that returns what it exports. They run in the order in which a browser would run them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import urljoin

IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function\*?|class|const) ([\w$]+))", re.MULTILINE)
UNKNOWN = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)

Read = Callable[[str], str]


class CannotBundle(ValueError):
    """A module that has no place in one script; the message names it and says why."""


def bundle(entries: Sequence[str], read: Read) -> str:
    """The modules at these URLs and all that they import; `read` returns the text of a URL. Raises CannotBundle."""
    names: dict[str, str] = {}
    parts: list[str] = []
    for url in entries:
        _add(url, (), names, parts, read)
    return "".join(parts).replace("</script", "<\\/script")


def _add(url: str, importers: tuple[str, ...], names: dict[str, str], parts: list[str], read: Read) -> str:
    """Add a module behind those that it imports; the name of what it exports."""
    if url in importers:
        raise CannotBundle(f"{url} imports itself: {' imports '.join((*importers, url))}")
    if url in names:
        return names[url]
    text = read(url)

    def imported(found: re.Match[str]) -> str:
        module = _add(urljoin(url, found[2]), (*importers, url), names, parts, read)
        return f"const {found[1].replace(' as ', ': ')} = {module};" if found[1] else ""

    body = IMPORT.sub(imported, text)
    exported = EXPORT.findall(body)
    body = EXPORT.sub("", body)
    if unknown := UNKNOWN.search(body):
        raise CannotBundle(f"{url}: the bundler does not know {unknown[0]!r}")
    name = names[url] = f"module{len(names)}"
    returns = f"return {{ {', '.join(exported)} }};"
    parts.append(f"// {url}\nconst {name} = await (async () => {{\n{body}\n{returns}\n}})();\n")
    return name
