"""The house: which folder may import which, as docs/architecture.md says, and how large its rooms may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import lock

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PACKAGES = ("app", "lock", "loadtest")
THREADS = {f"lock.session.{name}" for name in ("lease_thread", "worker")}  # they name the type of their engine


def room(package: str, path: Path) -> str:
    """The folder at the top of a package in which a file is, or the file itself where it stands at the top."""
    return path.relative_to(ROOT / package).parts[0].removesuffix(".py")


def files_of(package: str) -> dict[str, Path]:
    paths = (ROOT / package).rglob("*.py")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def imported(path: Path) -> set[str]:
    """The full names that a file imports, wherever in it; of ``from a import b`` both, as b may be a module."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def links(package: str) -> set[tuple[str, str]]:
    """Each import of one module of the package by another, those for types alone, too."""
    modules = files_of(package)
    return {
        (module, name if name in modules else name.rpartition(".")[0])
        for module, path in modules.items()
        for name in imported(path)
        if {name, name.rpartition(".")[0]} & modules.keys()
    }


def rows(package: str) -> list[str]:
    """The folders and files at the top of a package, as the table in docs/architecture.md lists them."""
    chapter = PAGE.split(f"\n## `{package}/`")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+?)(?:/|\.py)?` \|", chapter, re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_go_down_the_table(package: str) -> None:
    """A folder imports only from folders below it in the table, which has them all.

    No file imports itself by a detour, not even for types; the two threads of an engine name its type.
    """
    order, rooms = rows(package), {name: room(package, path) for name, path in files_of(package).items()}
    assert {*rooms.values()} <= {*order}
    arrows = {(rooms[one], rooms[other]) for one, other in links(package) if other != package}
    assert [(one, other) for one, other in arrows if one != other and order.index(one) >= order.index(other)] == []
    found = {(one, other) for one, other in links(package) if one not in THREADS or other != "lock.session.engine"}
    assert len(found) > len(files_of(package))
    graph: TopologicalSorter[str] = TopologicalSorter()
    for one, other in found:
        graph.add(one, other)
    graph.prepare()


def importers(package: str, *forbidden: str) -> set[str]:
    """The rooms of a package with a file that imports one of these packages."""
    files = files_of(package).values()
    return {room(package, path) for path in files if {name.split(".")[0] for name in imported(path)} & {*forbidden}}


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
    """Shop, load test and labs use the public names alone, but for the cohort that only the shop's etcd guards need."""
    files = files_of("app") | files_of("labs") | files_of("loadtest")
    names = {name for module, path in files.items() if ".tests" not in module for name in imported(path)}
    taken = {name for name in names if name.startswith("lock.")}
    of_the_shop = {f"lock.recipes.cohort.{name}" for name in ("CohortToken", "YieldingCohortMutex")}
    assert "lock.Mutex" in taken <= {f"lock.{name}" for name in [*lock.__all__, "aio"]} | of_the_shop


def test_the_load_test_shares_nothing_but_the_contract() -> None:
    """It imports `app.contract` alone of the shop, and that imports msgspec and the standard library alone."""
    taken = {name for path in (ROOT / "loadtest").rglob("*.py") for name in imported(path) if name.startswith("app")}
    assert taken
    assert {name for name in taken if not name.startswith("app.contract")} == set()
    shared = {name for path in (ROOT / "app/contract").glob("*.py") for name in imported(path)}
    others = {name for name in shared if name.split(".")[0] not in {*sys.stdlib_module_names, "msgspec"}}
    assert {name for name in others if not name.startswith("app.contract")} == set()


def test_no_test_imports_locust() -> None:
    """It would patch the standard library of the test run."""
    names = {name for path in (ROOT / "tests").rglob("*.py") for name in imported(path)}
    assert names
    assert {name for name in names if re.match(r"locust\b|gevent\b|loadtest\.locustfile", name)} == set()


def test_a_rerun_is_for_few_tests_that_say_why() -> None:
    """At most twenty are run once more where they fail, each once and with its reason."""
    texts = [path.read_text(encoding="utf-8") for folder in ("tests", "labs") for path in (ROOT / folder).rglob("*.py")]
    marks = [mark for text in texts for mark in re.findall(r"^ *(?:@pytest\.)?mark\.flaky(.*)", text, re.MULTILINE)]
    assert 0 < len(marks) <= 20
    assert [mark for mark in marks if not re.fullmatch(r'\(reruns=1, reason="[a-z].+"\)', mark)] == []


# What the image has not, and what is loaded only when it is needed.
IMPORTING = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, *_):
        top, _, rest = name.partition(".")
        is_shop = top == "app" and rest.split(".")[0] not in ("", "contract")
        if is_shop or top in ("lock", "labs", "grpc", "etcd3", "google", "vl_convert"):
            raise ImportError(f"{name} is not in the image")

sys.meta_path.insert(0, Missing())
import loadtest.locustfile
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.split(".")[0] in ("app", "loadtest")}))
"""


def test_the_locustfile_needs_the_contract_alone() -> None:
    """It can be imported without lock, gRPC, labs and the rest of the shop, and starts neither servers nor drawings."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "app.contract" in loaded
    assert not {"loadtest.stack", "loadtest.report", "loadtest.cli"} & {*loaded}
