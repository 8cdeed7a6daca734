"""Imports between the packages go one way: loadtest reaches app over HTTP, and app uses lock."""

from __future__ import annotations

from pathlib import Path

import pytest

import lock
from loadtest.stack.stack import Stack
from tests.repository.test_architecture import ROOT, assert_no_circle, imported


def imports(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def importers(package: str, *modules: str) -> list[str]:
    found = [path for path in (ROOT / package).rglob("*.py") if imports(path) & set(modules)]
    return sorted(str(path.relative_to(ROOT)) for path in found)


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("lock", ("app", "loadtest", "tests", "flask", "redis", "locust")),
        ("app", ("loadtest", "tests", "locust")),
        ("loadtest", ("app", "tests")),
    ],
)
def test_arrows_go_one_way(package: str, forbidden: tuple[str, ...]) -> None:
    """No file of a package imports a forbidden one."""
    assert importers(package, *forbidden) == []


@pytest.mark.parametrize("package", ["lock", "app", "loadtest"])
def test_no_file_imports_itself_by_a_detour(package: str) -> None:
    """Imports inside a package form no circle, those for types alone included."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / package).rglob("*.py")}
    arrows = {
        module: {name for found in imported(path) for name in (found, found.rpartition(".")[0]) if name in modules}
        for module, path in modules.items()
    }
    assert_no_circle(arrows)


@pytest.mark.parametrize("package", ["app", "loadtest"])
def test_the_public_names_of_lock_are_enough(package: str) -> None:
    """Shop and load test use the public names alone, as any other program would."""
    taken = {name for path in (ROOT / package).rglob("*.py") for name in imported(path) if name.startswith("lock.")}
    assert "lock.Mutex" in taken <= {f"lock.{name}" for name in [*lock.__all__, "aio"]}


def test_no_test_imports_locust() -> None:
    """It would patch the standard library of the test run (pitfall 29)."""
    assert importers("tests", "locust", "gevent") == []
    assert "loadtest.locustfile" not in "".join(
        line for path in (ROOT / "tests").rglob("*.py") for line in path.read_text().splitlines() if "import " in line
    )


def test_the_board_is_a_process_of_its_own(tmp_path: Path) -> None:
    """It is none of the instances, so it does not freeze when they do (pitfall 28)."""
    names = [process.name for process in Stack(tmp_path, board=True).processes]
    assert names.count("board") == 1
    assert len(names) == len(set(names))
