"""Put the documents beside docs/ on the site, and turn links to code into plain names, because the site has no code."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

import jieba
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)[^)]*\)")
PAGES = {
    "README.md": "readme.md",
    "README.zh-CN.md": "readme.zh-CN.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


jieba.setLogLevel(logging.WARNING)  # it reports each load of its dictionary as if something were wrong
jieba.dt.tmp_dir = sys.prefix  # keeps its cache in .venv, not in /tmp


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Called by MkDocs with all files of docs/: those beside docs/ join them, as seen from there."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r"\]\((?!https?:|#)", "](../", text).replace("](../docs/", "](")
        for document, its_page in PAGES.items():
            text = text.replace(f"](../{document})", f"]({its_page})")
        text = re.sub("<(table|tr|td)", r'<\1 markdown="block"', text)  # GitHub reads Markdown in cells without asking
        files.append(File.generated(config, page, content=text.replace('"docs/images/', '"images/')))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page: links to those documents lead to their pages; of other links the text stays."""
    for document, page in PAGES.items():
        markdown = markdown.replace(f"](../{document}", f"]({page}")
    return OUTSIDE.sub(r"\1", markdown)
