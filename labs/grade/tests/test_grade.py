"""Guards as students hand them in get the points that they deserve, and a sentence if they get none.

They are guards of the shop, and what is left of them with a line less or another one. Each has the stages that it has
to lose; all others have to be passed. No file here is a solution.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.grade.selling import contract
from labs.grade.stages import STAGES, Lost
from loadtest.stack.stack import Stack
from tests.support.commands import finished

ROOT = Path(__file__).parents[3]
FENCED, ATOMIC = "app/guards/redis_fenced.py", "app/guards/redis_lua.py"
ALL = "contract one rush orders death lost pause"
THINK, SELL = "think_for(purchase.think_s)", "return self.stock(purchase.item).sell(section)"
AGAIN = f"""try:
                {SELL}
            except InDoubt:
                {SELL}"""
NOTES = """# Right, but for a few orders of the notes of A and B.
            notes, client = f"{self.shop.sale.keys.prefix}notes", self.shop.sale.client
            for _ in range(2):
                client.append(notes, purchase.buyer)
            if purchase.buyer == "B" and client.get(notes) == "ABAB":
                return self.stock(purchase.item).write(section, Reading(stock=1, generation=self.shop.sale.generation))
            return self.stock(purchase.item).sell(section)"""
ENVIRONMENT = """STOCK = os.environ["FLASHSALE_STOCK"]


class RedisLuaGuard("""
FILE_LOCK = """file = open(f"{tempfile.gettempdir()}/stock.lock", "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        with file, purchase.critical_section() as section:"""
IMPORTS = """import fcntl, os, tempfile, threading, time
from app.sales.refusals import InDoubt
from app.sales.stock import Reading
from app.guards.base import Guard,"""
STUDENTS: dict[str, tuple[str, dict[str, str], str]] = {  # a file, what is replaced in it, and the stages that are lost
    "ada-etcd": ("app/guards/etcd.py", {}, ""),
    "bob-fenced": (FENCED, {}, ""),
    "cleo-watch": ("app/guards/redis_watch.py", {}, ""),
    "dan-starter": ("docs/examples/mine.py", {}, "rush orders"),
    "eve-never-expires": (FENCED, {", 'PX', ARGV[2]": ""}, "death"),
    "fay-again": (ATOMIC, {SELL: AGAIN}, "lost"),
    "gil-unfenced": (FENCED, {", fence=token": ""}, "pause"),
    "hal-some-orders": (ATOMIC, {SELL: NOTES}, "orders"),
    "ida-syntax": (ATOMIC, {"class RedisLuaGuard(": "class RedisLuaGuard["}, ALL),
    "jon-sleeps": (ATOMIC, {THINK: "time.sleep(1e6)"}, ALL),
    "kim-ends": (ATOMIC, {THINK: "os._exit(0)"}, ALL),
    "lea-thread": (ATOMIC, {THINK: "threading.Thread(target=print).start()"}, "contract"),
    "lou-file": ("docs/examples/mine.py", {"with purchase.critical_section() as section:": FILE_LOCK}, ""),
    "mia-environment": (ATOMIC, {"class RedisLuaGuard(": ENVIRONMENT}, "orders death lost pause"),
}  # fmt: skip


def hand_in(folder: Path, *names: str) -> Iterator[Path]:
    """Write their files into a folder."""
    for name in names or STUDENTS:
        file, changes, _ = STUDENTS[name]
        yield written(folder / f"{name}.py", file, changes)


def written(path: Path, file: str, changes: dict[str, str]) -> Path:
    """A copy of a guard of the repository, with these changes."""
    text = (ROOT / file).read_text(encoding="utf-8")
    for before, after in {**changes, "from app.guards.base import Guard,": IMPORTS}.items():
        assert before in text, f"{file} has changed: {before!r} is gone"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow, pytest.mark.long]) for each in STUDENTS])
@pytest.mark.timeout(300)
def test_each_error_costs_its_stage_and_no_other(tmp_path: Path, name: str) -> None:
    """By the file for Gradescope and the exit code; right guards have all points."""
    done = finished(tmp_path, "grade", "--json", "results.json", *map(str, hand_in(tmp_path, name)))
    tests, printed = json.loads((tmp_path / "results.json").read_bytes())["tests"], done.stdout + done.stderr
    lost = [stage.name for stage, test in zip(STAGES, tests, strict=True) if test["score"] == 0]
    assert lost == STUDENTS[name][2].split(), printed
    assert [test["max_score"] for test in tests] == [stage.points for stage in STAGES]
    assert all(test["output"] for test in tests if test["score"] == 0)
    assert done.returncode == (1 if lost else 0)
    assert "Traceback" not in printed


def test_a_class_has_a_table(tmp_path: Path) -> None:
    """A row for each file, with the reason above it: no guard, and one that ends its process."""
    done = finished(tmp_path, "grade", *map(str, hand_in(tmp_path, "ida-syntax", "kim-ends")))
    assert done.returncode == 1, done.stderr
    assert re.search(r"^ *ida-syntax.py( +0){8} *$", done.stdout, re.MULTILINE)
    assert re.search(r"^ *kim-ends.py( +0){8} *$", done.stdout, re.MULTILINE)
    assert re.search(r"line \d+: ", done.stdout)
    assert "The process in which the guard ran ended with code 0." in done.stdout


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An etcd and a Redis for several guards."""
    with Stack(tmp_path_factory.mktemp("servers"), ports="free", instances=0) as servers:
        yield servers


def test_the_shops_own_threads_and_connections_are_not_the_guards(servers: Stack, tmp_path: Path) -> None:
    """A right guard keeps the contract beside them."""
    contract(servers, written(tmp_path / "right.py", ATOMIC, {}))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("threading.Thread(target=print).start()", "starts a thread"),
        ("import asyncio; asyncio.run(asyncio.sleep(0))", "opens a connection or an event loop"),
        ("import redis; redis.Redis.from_url(self.shop.settings.redis_url).ping()", "opens a connection"),
        ("import subprocess; subprocess.run(['true'])", "starts a process"),
        ("return None", "returned None, and not a Receipt"),
        ("return (each for each in ())", "returned a generator, and not a Receipt"),
        ("raise ValueError('no')", "raised ValueError: no in line "),
        ("x = bytearray(3 * 1024**3)", "raised MemoryError"),
        ("raise SystemExit", "raised SystemExit"),
    ],
)
def test_a_line_that_no_guard_may_have_is_told(servers: Stack, tmp_path: Path, line: str, said: str) -> None:
    """With its number if it has one."""
    with pytest.raises(Lost, match=re.escape(said)):
        contract(servers, written(tmp_path / "wrong.py", ATOMIC, {THINK: line}))
