"""Links of docs/ that lead to code: on the site, which has no code, they are names."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page: a link that leaves docs/ keeps its text alone."""
    return OUTSIDE.sub(r"\1", markdown)
