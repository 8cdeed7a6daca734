"""What the command tells in Chinese: every sentence, in columns that align."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from labs.faults.commands import conclusion
from labs.faults.scenarios import scenarios
from labs.faults.screen import results_table, sale_picture
from labs.faults.tests.test_screen import played, snapshot
from loadtest.language import CHINESE, lab_sentences, sentence_in
from loadtest.results import audit
from tests.support.terminal import printed

LABS = Path(__file__).parents[2]
BESIDES = ["judgement", "trial", "context", "threads", "screen", "runner"]  # what tells something, too
SOURCES = [
    *LABS.glob("*/scenarios.py"),
    *LABS.glob("*/scenarios/*.py"),
    *(LABS / f"faults/{name}.py" for name in BESIDES),
    Path(audit.__file__),
]
HAN = r"[\u4e00-\u9fff]"


def told(path: Path) -> Iterator[str]:
    """The texts of several words in a module, docstrings aside, with 7 for each value."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    groups = (ast.Expr, ast.JoinedStr)  # docstrings, and strings whose parts are no texts by themselves
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, groups) for part in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and id(node) not in parts:
            values = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "7" for each in values)
            if re.search("[a-z]{3} | [a-z]{3}", text) and not text.startswith("bold "):
                yield text


def said(sentence: str) -> str:
    """In Chinese, with the commas and colons of English."""
    return sentence_in(CHINESE, sentence).replace("\uff0c", ", ").replace("\uff1a", ": ")


def test_every_sentence_of_a_scenario_has_a_translation() -> None:
    """What is done, required and waited for has one, and so has what each scenario does."""
    sentences = [*(text for path in SOURCES for text in told(path)), *(each.summary for each in scenarios().values())]
    assert len(sentences) > 100
    english = [each for each in sentences if not any(re.search(HAN, said(begin + each)) for begin in ("", "shop-a "))]
    assert english == []
    assert said("a scenario, as you wrote it") == "a scenario, as you wrote it"


def test_no_translation_is_left_over() -> None:
    """Each sentence of the tables is in the source, whatever its values are."""
    source = " ".join(path.read_text(encoding="utf-8") for path in [*LABS.glob("*/*.py"), *SOURCES])
    source = " ".join(source.replace("\\n", " ").split()).lower()
    pieces = {piece for sentence in lab_sentences() for piece in re.split(r"\{\w+\}", sentence)}
    assert [each for each in pieces if " ".join(each.split()).lower().rstrip("s") not in source] == []


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("shop-a is frozen", "shop-a 被冻结"),
        ("shop-a and etcd hear each other again, for 1.2 s", "shop-a 与 etcd 恢复通信, 持续 1.2 秒"),
        ("2 buyers in doubt 60 s after the fault", "故障之后 60 秒, 仍有 2 个买家存疑"),
        ("OVERSOLD by 24, as expected", "OVERSOLD 超卖 24, 符合预期"),
        ("the write did not happen within 20 s: once more", "等了 20 秒, 没有等到: 写入: 再来一次"),
    ],
)
def test_the_values_of_a_sentence_are_kept(english: str, chinese: str) -> None:
    """Names and numbers stand where Chinese has them; a value that is a sentence is translated, too."""
    assert said(english) == chinese


def test_a_random_fault_says_how_long_it_lasts() -> None:
    """What is done comes first, and then the time, whatever the sentence ends with."""
    faults = list(told(LABS / "faults/scenarios/random_sequence.py"))
    assert len(faults) > 10
    assert [each for each in faults if said(f"{each}, for 1.2 s") != f"{said(each)}, 持续 1.2 秒"] == []


def test_the_last_line_counts_in_chinese() -> None:
    """As many as are not as expected, and as many as have no verdict."""
    line = said(f"2 runs in 6 s: {conclusion([played(), played(as_expected=None)])}.")
    assert line == "2 场, 用时 6 秒: 1 场不符合预期, 1 场没有结论, 因为这台机器太慢。"


def test_chinese_columns_align() -> None:
    """The table fits into 80 cells; the bars of the picture begin below each other."""
    lines = printed(results_table([played()], plain=True, language=CHINESE), width=80).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert len(lines) == 4
    rows = printed(sale_picture("pause-holder, etcd", snapshot(etcd=False), CHINESE), width=80).splitlines()[1:]
    assert not re.search("[a-z]{3}", re.sub("shop-.|etcd", "", "".join(rows)))
    words = ["剩余 288", "租约 1 秒", "租约 2 秒", "不可用"]
    assert len({cell_len(row[: row.index(word)]) for row, word in zip(rows, words, strict=True)}) == 1
