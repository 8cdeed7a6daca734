"""Guards as students hand them in: those of the shop, and what is left of them with a line less or another one.

Each has the stages that it has to lose; all others have to be passed. No file here is a solution.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
IMPORTS = """import os, threading, time
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
    "lou-file": ("docs/your-guard.md", {}, ""),
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
