"""The rules that the page has in JavaScript: the same examples as the Python ones, run by node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadtest.results.losses import Losses
from loadtest.results.record import Record
from tests.support.shops import snapshot_of

DATA = Path(__file__).parents[2] / "data"
STATIC = Path(__file__).parents[3] / "app/board/static"
NODE = shutil.which("node")


Run = Callable[[Any, str], Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """What `told` of a script makes of examples, beside the page's scripts, marked as modules for every node."""
    if NODE is None:
        pytest.skip("no node here")
    shutil.copytree(STATIC, tmp_path, dirs_exist_ok=True)
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def run(examples: Any, script: str) -> Any:
        (tmp_path / "test.js").write_text(f"{script}\nconsole.log(JSON.stringify(told({json.dumps(examples)})));")
        done = subprocess.run([str(NODE), tmp_path / "test.js"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def data(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def judged(example: dict[str, Any]) -> dict[str, Any]:
    """The sale of an example as the board tells of it."""
    told = {"gave_up": example.get("gave_up", 0), "refused": example.get("failed", 0)}
    verdict = snapshot_of(example).judge(**told)
    sale = {"initial": example["stock"], "stock": example["stock_left"], "orders": example["sold"]}
    return {**sale, **told, "verdict": verdict.sentence, "kind": verdict.kind.value, "findings": verdict.findings}


def test_the_headline_tells_each_verdict(run: Run) -> None:
    """It is that of the terminal; what sold nothing is ready unless buyers gave up."""
    script = """
        import { headline } from "./verdict.js";
        const told = (sales) => sales.map((sale) => headline({ sale, over: true }).word);
    """
    examples = [judged(each) for each in data("verdicts.json")]
    untouched = [each["verdict"] == "EXACT" and not each["orders"] for each in examples]
    words = run(examples, script)
    assert [word.endswith("for sale") for word in words] == untouched
    told = zip(words, examples, untouched, strict=True)
    assert all(word == each["verdict"] for word, each, is_untouched in told if not is_untouched)


def test_each_text_is_there_in_both_languages(run: Run) -> None:
    """Both have the same keys and values, and every text that page and scripts ask for."""
    texts = run(None, 'import { TEXTS } from "./texts.js"; const told = () => TEXTS;')
    assert texts["en"].keys() == texts["zh"].keys()
    for key, text in texts["en"].items():
        assert set(re.findall(r"{(\w+)}", text)) == set(re.findall(r"{(\w+)}", texts["zh"][key])), key
    everything = "\n".join(path.read_text(encoding="utf-8") for path in [*STATIC.glob("*.js"), *STATIC.glob("*.html")])
    asked = set(re.findall(r'data-(?:text|label)="([^"]+)"', everything))
    asked |= set(re.findall(r'\btext\((?:[^()"]*\? ?)?"([^"$]+)"', everything))
    assert asked - texts["en"].keys() == set()


def test_the_page_sees_the_same_overlaps(run: Run) -> None:
    """Of each example, how many each met, how many there were at once, and in which spans.

    Where the next process of a container has the id of a killed one, only what it entered itself is still open.
    """
    script = """
        import { layOut, sweep } from "./overlaps.js";
        const section = { instance: "a", pid: 1, token: null, item: "1", outcome: "sold" };
        const died = (view) => layOut(view).bars.map(({ died, open }) => [died, open]);
        const told = ([examples, view]) => [died(view), ...examples.map(({ sections }) => {
          const whole = sections.map((each) => ({ ...section, ...each }));
          const { bars } = layOut({ instances: [], live: false, sections: whole });
          const { spans, most } = sweep(bars);
          const together = bars.filter((bar) => bar.together).map((bar) => [bar.section.order, bar.together]);
          return [together.sort(), most, spans];
        })];
    """
    instances = [{"name": "a", "state": "up", "workers": [{"pid": 1, "began_ms": 10}]}]
    entered = [{"instance": "a", "pid": 1, "entered_ms": entered_ms, "left_ms": None} for entered_ms in (5, 20)]
    view = {"instances": instances, "sections": entered, "live": True, "now_ms": 30}
    examples = data("overlaps.json")
    died, *found = run([examples, view], script)
    assert died == [[True, False], [False, True]]
    for each, told in zip(examples, found, strict=True):
        met = Counter(order for pair in each["pairs"] for order in pair)
        assert told == [sorted(map(list, met.items())), each["most"], each["spans"]], each["what"]


def test_slow_motion_counts_the_same_losses(run: Run) -> None:
    """Of each example, what each write lost; of a rush, also the counter after each write, and when that was."""
    script = """
        import { lossesOf } from "./slow/losses.js";
        import { movesOf } from "./slow/moves.js";
        const section = { instance: "a", pid: 1, token: null, outcome: "sold" };
        const lost = ({ ledger, items, sections }) => {
          const orders = ledger.map((order, index) => ({ order, item: items?.[index] }));
          const whole = sections.map((each) => ({ ...section, ...each }));
          return [...lossesOf({ sections: whole, ledger: orders, stock: 300 }).values()].map((each) => each.lost);
        };
        const wrote = (record) => movesOf(record).moves.filter(({ sold }) => sold);
        const told = ([examples, record]) => [
          examples.map(lost), wrote(record).map(({ lost, counter, at }) => [lost, counter, at]),
        ];
    """
    examples, record = data("losses.json"), Record.read(DATA / "rush-none.json")
    lost, wrote = run([examples, data("rush-none.json")], script)
    assert lost == [each["losses"] for each in examples]
    found = Losses.of(record.ledger, record.sections, record.stock)
    assert [each[:2] for each in wrote] == [[write.lost, write.after] for write in found.writes]
    assert [each[2] for each in wrote] == pytest.approx([write.at_ms for write in found.writes], abs=0.001)
    assert sum(each[0] for each in wrote) == record.verdict["lost_updates"] > 0


def test_a_kept_run_is_in_the_order_of_its_ledger(run: Run) -> None:
    """Of two who read the same, the second in the ledger lost the first one's sale, though its answer came earlier."""
    script = """
        import { kept } from "./record.js";
        import { movesOf } from "./slow/moves.js";
        const section = { instance: "a", pid: 1, token: null, outcome: "sold", line: 1, stock_read: 300, stock: 299 };
        const wrote = (order, at_ms) => ({
          ...section, order, buyer: order, entered_ms: 0, left_ms: at_ms, points: [{ name: "wrote", line: 2, at_ms }],
        });
        const rows = { sections: [wrote("first", 9), wrote("second", 5)], source: { first_line: 1 } };
        const told = ({ sale, orders }) => {
          const { record } = kept(sale, { ...rows, orders });
          const moves = movesOf(record).moves.filter(({ sold }) => sold);
          return [record.verdict, moves.map(({ section, lost }) => [section.order, lost])];
        };
    """
    sale = {"guard": "none", "initial": 300, "kind": "oversold", "findings": {"oversold": 1}}
    verdict, wrote = run({"sale": sale, "orders": ["first", "second"]}, script)
    assert verdict == {"kind": "oversold", "oversold": 1}
    assert wrote == [["first", 0], ["second", 1]]
