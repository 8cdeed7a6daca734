"""The rules that the page has in JavaScript: the same examples as the Python ones, run by node."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2] / "data"
STATIC = Path(__file__).parents[3] / "app/board/static"
NODE = shutil.which("node")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page's scripts, marked as modules for every version of node."""
    if NODE is None:
        pytest.skip("no node here")
    shutil.copytree(STATIC, tmp_path, dirs_exist_ok=True)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    return tmp_path


def run(page: Path, examples: str, script: str) -> Any:
    """What `script` makes of these examples, which it knows as `examples`."""
    text = (DATA / examples).read_text(encoding="utf-8")
    (page / "test.js").write_text(f"{script}\nconst examples = {text};\nconsole.log(JSON.stringify(told(examples)));")
    done = subprocess.run([str(NODE), page / "test.js"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_headline_tells_each_verdict(page: Path) -> None:
    """A sale that sold nothing is shown as ready only if no buyer gave up or was refused."""
    script = """
        import { headline } from "./verdict.js";
        const saleOf = ({ stock, stock_left, in_transit = 0, sold, ...more }) =>
          ({ ...more, initial: stock, stock: stock_left + in_transit, orders: sold });
        const told = (examples) => examples.map((each) => headline({ sale: saleOf(each), over: true }).word);
    """
    examples = json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))
    untouched = [each["verdict"] == "EXACT" and not each["sold"] for each in examples]
    words = run(page, "verdicts.json", script)
    assert [word.endswith("for sale") for word in words] == untouched
    told = zip(words, examples, untouched, strict=True)
    assert all(word == each["verdict"] for word, each, is_untouched in told if not is_untouched)


def test_what_a_killed_process_left_open_has_died(page: Path) -> None:
    """Where the next process of a container has its id, only what that process entered itself is still open."""
    script = """
        import { layOut } from "./overlaps.js";
        const instances = [{ name: "a", state: "up", workers: [{ pid: 1, began_ms: 10 }] }];
        const sections = [5, 20].map((entered_ms) => ({ instance: "a", pid: 1, entered_ms, left_ms: null }));
        const { bars } = layOut({ instances, sections, live: true, now_ms: 30 });
        const told = () => bars.map(({ died, open }) => [died, open]);
    """
    assert run(page, "overlaps.json", script) == [[True, False], [False, True]]


def test_the_page_sees_the_same_overlaps(page: Path) -> None:
    """Of each example, how many each met, how many there were at once, and in which spans."""
    script = """
        import { layOut, sweep } from "./overlaps.js";
        const section = { instance: "a", pid: 1, token: null, item: "1", outcome: "sold" };
        const told = (examples) => examples.map(({ sections }) => {
          const whole = sections.map((each) => ({ ...section, ...each }));
          const { bars } = layOut({ instances: [], live: false, sections: whole });
          const { spans, most } = sweep(bars);
          const together = bars.filter((bar) => bar.together).map((bar) => [bar.section.order, bar.together]);
          return [together.sort(), most, spans];
        });
    """
    examples = json.loads((DATA / "overlaps.json").read_text(encoding="utf-8"))
    for each, told in zip(examples, run(page, "overlaps.json", script), strict=True):
        met = Counter(order for pair in each["pairs"] for order in pair)
        assert told == [sorted(map(list, met.items())), each["most"], each["spans"]], each["what"]


def test_fifty_lanes_keep_apart(page: Path) -> None:
    """In a timeline as low as on a small projector no bar leaves its lane, and no name stands on another."""
    script = """
        import { draw, rectOf } from "./drawing.js";
        import { layOut, sweep } from "./overlaps.js";
        const element = (known = {}) => ({
          known,
          getAttribute: (name) => known[name],
          setAttribute: (name, value) => (known[name] = value),
        });
        globalThis.document = { createElementNS: () => element() };
        const told = ({ sections }) => {
          const shop = (n) => sections.slice(0, 2).map((each) => ({ ...each, pid: 1, instance: `shop-${n}` }));
          const all = Array.from({ length: 50 }, (_, number) => shop(number)).flat();
          const { bars, lanes } = layOut({ instances: [], live: false, sections: all });
          const x = (ms) => 100 + ms;
          const room = { x, from: 0, to: 800, left: 100, width: 900, bottom: 200, line: 16 };
          const place = { bars, lanes, ...sweep(bars), events: [], ...room };
          const titles = draw(place).filter(({ known }) => known.class === "lane-title").map(({ known }) => known.y);
          const lane = ({ top, height }) => [top, top + height];
          const rects = bars.map((bar) => ({ ...rectOf(bar, place), lane: lane(bar.lane) }));
          return { titles, rects, lanes: lanes.length };
        };
    """
    told = run(page, "rush-etcd.json", script)
    assert told["lanes"] == 50
    assert len(told["titles"]) > 5
    assert all(below - above >= 16 for above, below in itertools.pairwise(told["titles"]))
    assert len(told["rects"]) == 100
    for rect in told["rects"]:
        assert rect["lane"][0] <= rect["y"] <= rect["y"] + rect["height"] <= rect["lane"][1]
        assert 0 <= rect["y"] <= 200 - rect["height"]
