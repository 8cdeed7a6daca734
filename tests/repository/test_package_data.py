"""An installed package has all its files."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[2]


def patterns() -> list[str]:
    """What pyproject.toml adds to the modules, relative to each folder."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    line = text.partition("[tool.setuptools.package-data]\n")[2].partition("\n")[0]
    return [each.strip(' "') for each in line.partition("[")[2].rstrip("]").split(",")]


@pytest.mark.parametrize("package", ["app", "lock", "loadtest"])
def test_every_file_of_a_package_is_packed(package: str) -> None:
    """Scripts, pages, templates and py.typed come with an installation, wherever a folder keeps them."""
    listed = subprocess.run(["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [
        PurePath(name) for name in listed.stdout.splitlines() if not name.endswith((".py", ".toml", ".md", "LICENSE"))
    ]
    assert files
    assert [file for file in files if not any(file.match(pattern) for pattern in patterns())] == []
