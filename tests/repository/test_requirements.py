"""The requirements files: pinned, hashed, consistent, and free of addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = ["requirements-build.txt", "requirements.txt", "requirements-loadtest.txt", "requirements-dev.txt"]
BROWSER = "requirements-browser.txt"  # for on top of all


def pins(name: str) -> dict[str, str]:
    """Each requirement as `name==version ; marker`, with its hashes."""
    text = re.sub(r"\\\n", " ", (REPOSITORY / name).read_text())
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return {line.partition(" --hash=")[0].strip(): line for line in lines}


@pytest.mark.parametrize("name", [*NAMES, BROWSER])
def test_everything_is_pinned_by_hash(name: str) -> None:
    """Every package has one exact version and at least one hash."""
    assert pins(name)
    for pin, line in pins(name).items():
        assert re.match(r"[a-z0-9.\[\]-]+==[^\s,]+( ;|$)", pin)
        assert "--hash=sha256:" in line


@pytest.mark.parametrize("name", [*NAMES, BROWSER])
def test_no_address_in_a_requirements_file(name: str) -> None:
    """Where packages come from is the user's setting: no file names an index."""
    assert not re.search(r"://|--(extra-)?index|--find-links", (REPOSITORY / name).read_text())


@pytest.mark.parametrize(("smaller", "larger"), [NAMES[1:3], NAMES[2:4]])
def test_larger_files_contain_the_smaller(smaller: str, larger: str) -> None:
    """Runtime, load test and development install the same versions of what they share."""
    versions = [{pin.partition(" ;")[0] for pin in pins(name)} for name in (smaller, larger)]
    assert versions[0] <= versions[1]


def test_the_browser_changes_nothing_else() -> None:
    """What drives a browser needs the versions that are there already."""
    versions = {name: {pin.partition(" ;")[0] for pin in pins(name)} for name in ("requirements-dev.txt", BROWSER)}
    known = {pin.partition("==")[0] for pin in versions["requirements-dev.txt"]}
    assert {pin for pin in versions[BROWSER] if pin.partition("==")[0] in known} <= versions["requirements-dev.txt"]
