"""`lock` can be installed alone; `lock/pyproject.toml` says no other things than the demo's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "lock"


def table(path: Path, key: str) -> set[str]:
    """The strings of an array in a TOML file (Python 3.10 has no reader for it)."""
    found = re.search(rf"^{key} = \[(.*?)\]$", path.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return set(re.findall(r'"([^"]+)"', found[1]))


def test_every_folder_of_the_library_is_a_package_of_it() -> None:
    """A folder that is not named would be missing where the library is installed alone."""
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in LOCK.rglob("__init__.py")}
    assert table(LOCK / "pyproject.toml", "packages") == folders
    assert "lock.recipes" in folders


def test_the_library_needs_nothing_that_the_demo_lacks() -> None:
    """Its dependencies are some of the demo's, within the same bounds, so the same pins serve both."""
    ours, all_of_them = (table(path / "pyproject.toml", "dependencies") for path in (LOCK, ROOT))
    assert ours < all_of_them
    assert {re.split("[=>]", each)[0] for each in ours} == {"click", "etcd3", "grpcio", "protobuf"}


@pytest.mark.parametrize("line", ["version", "requires-python", "etcd-lock", "requires", "license"])
def test_it_is_described_as_the_demo_is(line: str) -> None:
    """Version, Python, command and build backend are the same in both files."""
    ours, demos = (
        re.findall(rf"^{line} = .*$", (path / "pyproject.toml").read_text(), re.MULTILINE) for path in (LOCK, ROOT)
    )
    assert ours == demos != []


def test_its_files_are_there() -> None:
    """README, license and the mark of a typed package, which its description names, exist."""
    assert all((LOCK / name).is_file() for name in ("README.md", "LICENSE", "py.typed"))
    assert (LOCK / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
