"""Modules in one script, and a page in one file."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess

import pytest

from labs.site.bundle import bundle
from labs.site.page import standalone

NODE = shutil.which("node")
MODULES = {
    "/a.js": 'import { name as other, later } from "/b/b.js";\nimport "./c.js";\nconst name = "a";\n'
    "console.log(name, other, later());\n",
    "/b/b.js": 'import { $ } from "../c.js";\nexport const name = await Promise.resolve($);\n'
    'export function later() {\n  return "</script>";\n}\n',
    "/c.js": 'console.log("c");\nexport const $ = "b";\n',
}


@pytest.mark.skipif(NODE is None, reason="no node here")
def test_each_module_runs_once_behind_those_it_imports() -> None:
    """Names that two modules share are kept apart, and no text of a module ends the element."""
    script = bundle(["/a.js"], MODULES.__getitem__)
    assert "</script" not in script
    command = [str(NODE), "--input-type=module"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "c\na b </script>\n"


PAGE = """<!doctype html>
<html><head>
  <meta charset="utf-8">
  <link rel="icon" href="/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/style.css">
  <script type="module" src="/c.js"></script>
</head><body></body></html>
"""


def test_a_page_has_all_that_it_needs_and_allows_nothing_else() -> None:
    """The policy has the hashes of what stands in the page, and no address is left to be asked for."""
    files = {**MODULES, "/style.css": "p { color: red; }\n", "/icon.svg": '<svg id="a"/>'}
    page = standalone(PAGE, files.__getitem__, data={"text": "</script>"})
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "console.log" in script
    rules = [rule.split() for rule in re.findall(r'Policy" content="(.*?)"', page)[0].split("; ")]
    allowed = {name: sources for name, *sources in rules}
    assert allowed.pop("img-src") == ["data:"]
    assert allowed.pop("script-src") == [hashed(script)]
    assert allowed.pop("style-src") == [hashed(style)]
    assert {*map(tuple, allowed.values())} == {("'none'",)}
    assert re.findall(r'(?:src|href)="(?!data:)', page) == []


def hashed(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
