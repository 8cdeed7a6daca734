"""The documents as a site: built without a warning, and readable from disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Every page of docs/ is on it and in its navigation; a link that leads nowhere would end the build."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path.stem for path in tmp_path.glob("*.html")} - {"404"}
    assert pages == {path.stem for path in ROOT.glob("docs/*.md")}
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert pages <= set(re.findall(r'href="(?:\./)?([\w.-]+)\.html', index))


def test_the_site_fetches_nothing() -> None:
    """It needs neither a server nor a network to be read."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "- offline" in settings
    assert "font: false" in settings
