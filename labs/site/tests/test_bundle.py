"""Modules in one script: they run as a browser runs them, and what cannot is refused."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from labs.site.bundle import CannotBundle, bundle

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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('import everything from "./c.js";', "does not know 'import everything"),
        ("export let count = 0;", "does not know 'export let"),
        ('import { a } from "./d.js";', "/d.js imports itself"),
    ],
    ids=["default", "changing", "cycle"],
)
def test_what_has_no_place_in_one_script_is_refused(text: str, why: str) -> None:
    """The message names the module."""
    with pytest.raises(CannotBundle, match=why):
        bundle(["/d.js"], {"/d.js": text, **MODULES}.__getitem__)
