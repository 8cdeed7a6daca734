"""What the command tells in Chinese: every sentence, in columns that align."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from app.contract import verdict
from labs.faults.scenarios import scenarios
from labs.faults.tests.test_screen import played
from loadtest.language import CHINESE, Message, chinese_texts
from loadtest.results import audit
from loadtest.results.record import Expectation, FaultEvent, Record

LABS = Path(__file__).parents[2]
# What makes messages of a text: the methods of a scenario's context, and `Message` itself.
MAKERS = {"Message", "of", "announce", "act", "require", "require_in_time", "wait_for", "_shown", "say", "of_shop"}
MAKERS |= {"MistimedFault", "ScenarioError"}


def texts_of(path: Path) -> Iterator[str]:
    """The texts of messages in a module: what it hands to one that makes them, or has in a variable for that."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        values = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in MAKERS:
            values = node.args
        elif isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for value in values:
            text = value.value if isinstance(value, ast.Constant) else None
            if isinstance(text, str) and re.search("[a-z]{3}.* ", text) and not text.startswith("bold "):
                yield text


def test_every_text_of_a_scenario_has_a_translation() -> None:
    """What is done, required and waited for has one, and so has what each scenario does."""
    sources = [*LABS.glob("*/scenarios.py"), *LABS.glob("faults/**/*.py")]
    texts = {text for path in sources if "tests" not in path.relative_to(LABS).parts for text in texts_of(path)}
    texts |= {each.summary for each in scenarios().values()}
    assert len(texts) > 90
    assert texts - chinese_texts().keys() == set()


def test_no_translation_is_left_over() -> None:
    """Each text of the tables is in the source."""
    sources = [Path(audit.__file__), Path(verdict.__file__), *LABS.glob("**/*.py")]
    source = " ".join(
        " ".join(path.read_text(encoding="utf-8") for path in sources).replace("\\n", " ").split()
    ).lower()
    assert [text for text in chinese_texts() if " ".join(text.split()).lower() not in source] == []


def test_the_values_of_a_message_are_kept() -> None:
    """Names and numbers stand where Chinese has them; a value that is a message is translated, too."""
    frozen = Message.of("{shop} is frozen", shop="shop-a")
    assert frozen.in_language(CHINESE) == "shop-a 被冻结"
    lasting = Message.of("{fault}, for {s} s", fault=frozen, s=1.2)
    assert (str(lasting), lasting.in_language(CHINESE)) == (
        "shop-a is frozen, for 1.2 s",
        "shop-a 被冻结\uff0c持续 1.2 秒",
    )
    assert Message.of("a scenario of {name}", name="yours").in_language(CHINESE) == "a scenario of yours"
    assert Message.verbatim("{braces}").in_language(CHINESE) == "{braces}"


def test_a_kept_record_speaks_both_languages(tmp_path: Path) -> None:
    """Its events and problems are read back as messages, whose values may be messages."""
    record = played()
    frozen = Message.of("{shop} is frozen", shop="shop-a")
    record.events = [FaultEvent(1.0, "{fault}, for {s} s", {"fault": frozen, "s": 1.2})]
    record.expectation = Expectation("EXACT", False, [Message.of("the sale was not over {then}", then=frozen)])
    record.write(tmp_path / "record.json")
    kept = Record.read(tmp_path / "record.json")
    assert (kept.events, kept.expectation) == (record.events, record.expectation)
    assert kept.events[0].message.in_language(CHINESE) == "shop-a 被冻结\uff0c持续 1.2 秒"
