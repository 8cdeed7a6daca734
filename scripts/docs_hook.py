"""Turn links from docs/ to code into plain names, because the site has no code."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page: of a link out of docs/, only the text stays."""
    return OUTSIDE.sub(r"\1", markdown)
