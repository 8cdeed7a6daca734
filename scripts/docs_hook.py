"""Put README in both languages on the site, and turn links to code into plain names, because the site has no code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)[^)]*\)")
READMES = {"README.md": "readme.md", "README.zh-CN.md": "readme.zh-CN.md"}


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Called by MkDocs with all files of docs/: the READMEs join them, as seen from docs/."""
    for name, page in READMES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r"\]\((?!https?:|#)", "](../", text).replace("](../docs/", "](")
        for readme, its_page in READMES.items():
            text = text.replace(f"](../{readme})", f"]({its_page})")
        files.append(File.generated(config, page, content=text.replace('"docs/images/', '"images/')))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page: of a link out of docs/, only the text stays."""
    return OUTSIDE.sub(r"\1", markdown)
