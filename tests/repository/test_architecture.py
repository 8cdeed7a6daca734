"""The house: which folder may import which, as docs/architecture.md says, and how large its rooms may be."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import lock
from loadtest.stack.stack import Stack

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PACKAGES = ("app", "lock", "loadtest")
UNCOUNTED = {"__init__.py", "__main__.py", "py.typed", "__pycache__", "README.md", "pyproject.toml"}

Arrow = tuple[str, str]


def room(package: str, path: Path) -> str:
    """The folder at the top of a package in which a file is, or the file itself where it stands at the top."""
    return path.relative_to(ROOT / package).parts[0].removesuffix(".py")


def files_of(package: str) -> dict[str, Path]:
    paths = (ROOT / package).rglob("*.py")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported(path: Path) -> Iterator[str]:
    """The full names that a file imports, wherever in it; of ``from a import b`` both, as b may be a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def for_types(path: Path) -> set[str]:
    """The full names that a file imports for type checkers alone."""
    blocks = [
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    return {f"{each.module}.{alias.name}" for each in imports for alias in each.names}


def links(package: str, *, types: bool = True) -> set[tuple[str, str]]:
    """Each import of one module of the package by another, with `types` also those for types alone."""
    modules = files_of(package)
    return {
        (module, name if name in modules else name.rpartition(".")[0])
        for module, path in modules.items()
        for name in {*imported(path)} - (set() if types else for_types(path))
        if {name, name.rpartition(".")[0]} & modules.keys()
    }


def arrows(package: str) -> set[Arrow]:
    modules = files_of(package)
    found = {
        (room(package, modules[one]), room(package, modules[other]))
        for one, other in links(package)
        if other != package
    }
    return {(one, other) for one, other in found if one != other}


def rows(package: str) -> dict[str, list[str]]:
    """The package's table in docs/architecture.md, from the top: ``| `room` | sentence | `other` `another` |``."""
    chapter = PAGE.split(f"\n## `{package}/`")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([\w.]+?)(?:/|\.py)?` \|.*\|([^|]*)\|$", chapter, re.MULTILINE)
    return {name: re.findall(r"`([\w.]+?)(?:/|\.py)?`", others) for name, others in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_are_those_of_the_table(package: str) -> None:
    """A folder imports from exactly the folders that the table names for it, and they stand below it."""
    table = rows(package)
    assert arrows(package) == {(name, other) for name, others in table.items() for other in others}
    order = list(table)
    assert all(order.index(name) < order.index(other) for name, other in arrows(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_imports_itself_by_a_detour(package: str) -> None:
    """Imports inside a package form no circle; a part may name the type of the whole to which it belongs."""
    found = links(package, types=False)
    assert len(found) > len(files_of(package))
    graph: TopologicalSorter[str] = TopologicalSorter()
    for one, other in found:
        graph.add(one, other)
    graph.prepare()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_can_be_drawn_and_read(package: str) -> None:
    """At most 12 entries and 35 arrows at its top, 15 modules in a folder, 450 lines in a module.

    Arrows to what all may import are not counted: the contract, errors and plain values.
    """
    assert 0 < len({arrow for arrow in arrows(package) if arrow[1] not in ("contract", "errors", "model")}) <= 35
    assert 0 < len({path.name for path in (ROOT / package).iterdir()} - UNCOUNTED) <= 12
    modules = [path for suffix in ("py", "js", "lua") for path in (ROOT / package).rglob(f"*.{suffix}")]
    counted = Counter(path.parent for path in modules if path.name not in UNCOUNTED)
    assert {str(folder): number for folder, number in counted.items() if number > 15} == {}
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {path: number for path, number in lines.items() if number > 450} == {}


def test_every_test_says_what_holds() -> None:
    """The docstring of each test states the behaviour."""
    for path in [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "labs").rglob("test_*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path}::{node.name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_public_classes_share_a_name(package: str) -> None:
    """Within a package a class's name tells which it is; but `lock.aio` has the names of `lock` on purpose."""
    names = Counter(
        node.name
        for module, path in files_of(package).items()
        if not module.startswith("lock.aio")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, number in names.items() if number > 1] == []


def importers(package: str, *forbidden: str) -> set[str]:
    """The rooms of a package with a file that imports one of these packages."""
    paths = (ROOT / package).rglob("*.py")
    return {
        room(package, path) for path in paths if {name.partition(".")[0] for name in imported(path)} & set(forbidden)
    }


@pytest.mark.parametrize(
    ("package", "forbidden", "excepted"),
    [
        ("lock", ("app", "labs", "loadtest", "tests", "flask", "redis", "locust"), set()),
        ("lock", ("grpc", "google", "etcd3"), {"etcd"}),
        ("app", ("labs", "loadtest", "tests", "locust"), set()),
        ("loadtest", ("labs", "tests"), set()),
    ],
)
def test_arrows_go_one_way(package: str, forbidden: tuple[str, ...], excepted: set[str]) -> None:
    """No file of a package imports a forbidden one; only lock/etcd knows gRPC, protobuf and etcd3."""
    assert importers(package, *forbidden) == excepted


def test_the_public_names_of_lock_are_enough() -> None:
    """Shop, load test and labs use the public names alone, as any other program would."""
    paths = [path for package in ("app", "labs", "loadtest") for path in (ROOT / package).rglob("*.py")]
    taken = {name for path in paths if "tests" not in path.parts for name in imported(path) if name.startswith("lock.")}
    assert "lock.Mutex" in taken <= {f"lock.{name}" for name in [*lock.__all__, "aio"]}


def test_the_load_test_shares_nothing_but_the_contract() -> None:
    """It imports `app.contract` alone of the shop, and that imports the standard library alone."""
    taken = {name for path in (ROOT / "loadtest").rglob("*.py") for name in imported(path) if name.startswith("app")}
    assert taken
    assert {name for name in taken if not name.startswith("app.contract")} == set()
    shared = {name for path in (ROOT / "app/contract").glob("*.py") for name in imported(path)}
    assert {name for name in shared if name.partition(".")[0] not in {*sys.stdlib_module_names, "app"}} == set()
    assert {name for name in shared if name.startswith("app") and not name.startswith("app.contract")} == set()


def test_no_test_imports_locust() -> None:
    """It would patch the standard library of the test run (pitfall 29)."""
    names = {name for path in (ROOT / "tests").rglob("*.py") for name in imported(path)}
    assert names
    assert {name for name in names if re.match(r"locust\b|gevent\b|loadtest\.locustfile", name)} == set()


def test_the_board_is_a_process_of_its_own(tmp_path: Path) -> None:
    """It is none of the instances, so it does not freeze when they do (pitfall 28)."""
    names = [process.name for process in Stack(tmp_path, board=True).processes]
    assert names.count("board") == 1
    assert len(names) == len(set(names))
