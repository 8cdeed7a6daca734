"""A page of the board as one file: scripts, styles, icon and data inside, and a policy that allows nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from labs.site.bundle import Read, bundle

STYLE = re.compile(r' *<link rel="stylesheet" href="([^"]+)">\n')
SCRIPT = re.compile(r' *<script type="module" src="([^"]+)"></script>\n')
ICON = re.compile(r'(?<=<link rel="icon" href=")[^"]+')
CHARSET = '<meta charset="utf-8">\n'
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src {styles}; img-src data:; base-uri 'none'; form-action 'none'"
)


def standalone(
    html: str, read: Read, *, data: Mapping[str, Any], before: Sequence[str] = (), after: Sequence[str] = ()
) -> str:
    """The page of the board, as one file.

    Args:
        html: as the board serves it.
        read: returns the text of a URL.
        data: what scripts find in the element ``site-data``.
        before: further modules, by URL, that run before the page's own.
        after: those that run behind them.

    Raises:
        CannotBundle: a script has no place in one file.
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
