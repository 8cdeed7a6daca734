"""The house: which folder may import which, as docs/architecture.md says, and how large its rooms may be."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lock
from loadtest.stack.stack import Stack

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PACKAGES = ("app", "lock", "loadtest")
UNCOUNTED = {"__init__.py", "__main__.py", "py.typed", "__pycache__", "README.md", "pyproject.toml"}

AVOIDED = re.compile(r"\b(whoever|whomever|he|she|him|his|hers?|himself|herself)\b", re.IGNORECASE)
RULES = ROOT / "scripts/prose.py", Path(__file__)

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


def arrows(package: str) -> set[Arrow]:
    modules = files_of(package)
    found = set()
    for path in modules.values():
        for name in imported(path):
            target = modules.get(name) or modules.get(name.rpartition(".")[0])
            if target is not None and target != ROOT / package / "__init__.py":
                found.add((room(package, path), room(package, target)))
    return {(one, other) for one, other in found if one != other}


def allowed(package: str) -> set[Arrow]:
    """The arrows of the package's table in docs/architecture.md: ``| `room` | sentence | `other` `another` |``."""
    chapter = PAGE.split(f"\n## `{package}/`")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w./]+)` \|.*\|([^|]*)\|$", chapter, re.MULTILINE)
    assert rows
    return {
        (one.strip("/").removesuffix(".py"), other.strip("/").removesuffix(".py"))
        for one, others in rows
        for other in re.findall(r"`([\w./]+)`", others)
    }


def assert_no_circle(graph: Mapping[str, set[str]]) -> None:
    assert sum(map(len, graph.values())) > len(graph) / 2
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_are_those_of_the_table(package: str) -> None:
    """A folder imports from exactly the folders that the table names for it."""
    assert arrows(package) == allowed(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_between_folders_form_no_circle(package: str) -> None:
    """Every folder is above those that it imports from."""
    graph: dict[str, set[str]] = {}
    for one, other in arrows(package):
        graph.setdefault(one, set()).add(other)
    assert_no_circle(graph)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_can_be_drawn_and_read(package: str) -> None:
    """At most 12 entries and 35 arrows at its top, 15 modules in a folder, 300 lines in a module."""
    assert 0 < len(arrows(package)) <= 35
    assert 0 < len({path.name for path in (ROOT / package).iterdir()} - UNCOUNTED) <= 12
    modules = [path for suffix in ("py", "js", "lua") for path in (ROOT / package).rglob(f"*.{suffix}")]
    counted = Counter(path.parent for path in modules if path.name not in UNCOUNTED)
    assert {str(folder): number for folder, number in counted.items() if number > 15} == {}
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {path: number for path, number in lines.items() if number > 300} == {}


def test_every_test_says_what_holds() -> None:
    """The docstring of each test states the behaviour."""
    for path in (ROOT / "tests").rglob("test_*.py"):
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


@pytest.mark.parametrize("package", [*PACKAGES, "tests", "scripts"])
def test_no_avoided_word_in_code(package: str) -> None:
    """Docstrings, comments, messages and names keep to the words that make lint asks of documents."""
    paths = [path for kind in ("py", "js", "lua", "html", "css") for path in (ROOT / package).rglob(f"*.{kind}")]
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        if path not in RULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if AVOIDED.search(line)
    }
    assert found == set()


def test_grpc_stays_in_its_room() -> None:
    """lock/etcd alone knows gRPC, protobuf and etcd3."""
    knows = {
        room("lock", path)
        for path in files_of("lock").values()
        if {name.partition(".")[0] for name in imported(path)} & {"grpc", "google", "etcd3"}
    }
    assert knows == {"etcd"}


def test_every_file_of_the_walk_exists() -> None:
    """The files that docs/architecture.md names are there."""
    named = set(re.findall(r"`((?:app|lock|loadtest|tests|docs)/[\w./-]+\.\w+)`", PAGE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def importers(package: str, *modules: str) -> list[str]:
    paths = sorted((ROOT / package).rglob("*.py"))
    return [str(path) for path in paths if {name.partition(".")[0] for name in imported(path)} & set(modules)]


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
