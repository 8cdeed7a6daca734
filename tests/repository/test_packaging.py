"""What is installed: packages with all their files, `lock` as its own, pinned requirements, and .venv by `make`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", ["app", "loadtest"])
def test_every_file_of_a_package_is_packed(package: str) -> None:
    """Scripts, pages, templates and py.typed come with an installation, wherever a folder keeps them."""
    listed = subprocess.run(["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [
        PurePath(name) for name in listed.stdout.splitlines() if not name.endswith((".py", ".toml", ".md", "LICENSE"))
    ]
    assert files
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listing,) = re.findall(r'^\[tool.setuptools.package-data\]\n"\*" = (\[.*\])$', text, re.MULTILINE)
    patterns = json.loads(listing)
    assert [file for file in files if not any(file.match(pattern) for pattern in patterns)] == []


LOCK = ROOT / "lock"


def table(path: Path, key: str) -> set[str]:
    """The strings of an array in a TOML file (Python 3.10 has no reader for it)."""
    found = re.search(rf"^{key} = \[(.*?)\](?: #.*)?$", path.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return set(re.findall(r'"([^"]+)"', found[1]))


def test_the_library_is_a_distribution_of_its_own() -> None:
    """A folder that is not named would be missing if it is installed alone; so would README and license.

    Two distributions with the same files would overwrite each other's, and remove them. Its dependencies are some of
    the demo's, within the same bounds, so the same pins serve both.
    """
    assert all((LOCK / name).is_file() for name in ("README.md", "LICENSE", "py.typed"))
    assert (LOCK / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in LOCK.rglob("__init__.py")}
    folders = folders - {"lock.testing.plugin"} | {"pytest_etcd_lock"}  # which pytest imports without the library
    assert table(LOCK / "pyproject.toml", "packages") == folders
    assert "lock.recipes" in folders
    assert table(ROOT / "pyproject.toml", "include") == {"app*", "labs*", "loadtest*"}
    assert not re.search(r"^etcd-lock", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    ours, all_of_them = (table(path / "pyproject.toml", "dependencies") for path in (LOCK, ROOT))
    assert ours < all_of_them
    assert {re.split("[=>]", each)[0] for each in ours} == {"click", "etcd3", "grpcio", "protobuf"}


def pins(name: str) -> dict[str, str]:
    """Each requirement as `name==version ; marker`, with its hashes."""
    text = re.sub(r"\\\n", " ", (ROOT / f"requirements/{name}.txt").read_text())
    assert not re.search(r"://|--(extra-)?index|--find-links", text), "the index is the user's setting"
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return {line.partition(" --hash=")[0].strip(): line for line in lines}


def test_everything_is_pinned_by_hash() -> None:
    """Every package has one exact version and at least one hash.

    Runtime, load test and development install the same versions of what they share.
    """
    build, *larger = (pins(name) for name in ("build", "base", "loadtest", "dev"))
    for each in (build, *larger):
        assert each
        for pin, line in each.items():
            assert re.match(r"[a-z0-9.\[\]-]+==[^\s,]+( ;|$)", pin)
            assert "--hash=sha256:" in line
    base, loadtest, dev = ({pin.partition(" ;")[0] for pin in each} for each in larger)
    assert base <= loadtest <= dev


MADE = f"Making .venv with {sys.executable} ..."


def set_up(checkout: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Without the environment of a `make test` around this one, in which make says more."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    env |= {"PIP_NO_INDEX": "1", "PYTHON": python}
    return subprocess.run(["make", "setup-dev"], cwd=checkout, env=env, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_a_set_up_makes_what_is_missing_and_no_more(tmp_path: Path) -> None:
    """In a moved checkout, again, with changed requirements, half made, with a package that is nowhere, without Python.

    A .venv names its path, so the one that a moved checkout has is of no use.
    """
    checkout = tmp_path / "check out"
    for folder in ("requirements", "scripts", ".venv/bin"):
        (checkout / folder).mkdir(parents=True)
    for file in ("Makefile", "scripts/set_up.py"):
        shutil.copy(ROOT / file, checkout / file)
    for name in ("build", "dev"):
        (checkout / f"requirements/{name}.txt").write_text("# nothing\n")
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    (checkout / ".venv/.made-at").write_text("/elsewhere\n")
    (stamp := checkout / ".venv/dev.stamp").touch()
    assert MADE in set_up(checkout).stdout
    assert set_up(checkout).stdout == "", "a good one is used again, silently"
    os.utime(stamp, (0, 0))
    output = set_up(checkout).stdout
    assert "Installing requirements/dev.txt" in output
    assert "Making" not in output
    (checkout / ".venv/.made-at").unlink()  # its last file: without it nothing counts as installed
    (checkout / ".venv/pyvenv.cfg").unlink()
    assert MADE in set_up(checkout).stdout
    assert (checkout / ".venv/pyvenv.cfg").exists()
    (checkout / "requirements/dev.txt").write_text(f"nothing==0.0.1 --hash=sha256:{64 * '0'}\n")
    for _ in range(2):
        response = set_up(checkout)
        assert response.returncode != 0
        assert "use docker compose up" in response.stderr
    (old := tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for python in (str(old), "/nowhere/python"):
        response = set_up(checkout, python)
        assert response.returncode != 0
        assert response.stderr.startswith("set-up: Python 3.10 or newer with venv")
        assert "PYTHON=/path/to/python3.13" in response.stderr.splitlines()[0]
