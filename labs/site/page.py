"""A page of the board as one file: scripts, styles, icon and data inside, and a policy that allows nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urljoin

STYLE = re.compile(r' *<link rel="stylesheet" href="([^"]+)">\n')
SCRIPT = re.compile(r' *<script type="module" src="([^"]+)"></script>\n')
ICON = re.compile(r'(?<=<link rel="icon" href=")[^"]+')
CHARSET = '<meta charset="utf-8">\n'
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src {styles}; img-src data:; base-uri 'none'; form-action 'none'"
)
IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function\*?|class|const) ([\w$]+))", re.MULTILINE)
UNKNOWN = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)

Read = Callable[[str], str]


def standalone(
    html: str, read: Read, *, data: Mapping[str, Any], before: Sequence[str] = (), after: Sequence[str] = ()
) -> str:
    """The page of the board as one file; `read` returns the text of a URL. Raises CannotBundle.

    Scripts find `data` in the element ``site-data``. The modules at `before` run before the page's own, and those at
    `after` behind them.
    """
    styles = [_safe_style(read(url)) for url in STYLE.findall(html)]
    script = "\n" + bundle([*before, *SCRIPT.findall(html), *after], read)
    policy = POLICY.format(script=_hash(script), styles=" ".join(f"'{_hash(style)}'" for style in styles))
    packed = base64.b64encode(gzip.compress(json.dumps(data).encode(), mtime=0)).decode()  # a seventh of its size
    head = [f'<meta http-equiv="Content-Security-Policy" content="{policy}">']
    head += [f"<style>{style}</style>" for style in styles]
    foot = [f'<script type="application/octet-stream" id="site-data">{packed}</script>']
    foot += [f'<script type="module">{script}</script>']
    html = SCRIPT.sub("", STYLE.sub("", html))
    html = ICON.sub(lambda found: f"data:image/svg+xml,{quote(read(found[0]))}", html)
    html = _put(html, CHARSET, CHARSET + _lines(head))
    return _put(html, "</body>", _lines(foot) + "</body>")


def _lines(elements: Sequence[str]) -> str:
    return "".join(f"{element}\n" for element in elements)


def _put(html: str, old: str, new: str) -> str:
    before, found, behind = html.partition(old)
    assert found, f"the page has no {old}"
    return before + new + behind


def _safe_style(text: str) -> str:
    assert "</style" not in text
    return f"\n{text}"


def _hash(text: str) -> str:
    """The source expression of an inline element for Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class CannotBundle(ValueError):
    """A module that has no place in one script; the message names it and says why."""


def bundle(entries: Sequence[str], read: Read) -> str:
    """The modules at these URLs and all that they import, as one inline script: browsers load none from a disk.

    Each becomes a function that returns what it exports. They run in the order in which a browser would run them.
    """
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
