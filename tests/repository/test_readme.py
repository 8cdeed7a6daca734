"""README.md and docs/ say what is true: outputs have the shape of today's, and what is named exists."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from app import create_app
from app.guards import GUARDS, Promise
from loadtest.results.answer import Answer, Outcome
from loadtest.results.comparison import Comparison, Run
from loadtest.results.verdict import judge
from loadtest.terminal.table import table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
LONGEST = 900  # words of README
SOURCES = "".join(
    path.read_text(encoding="utf-8") for path in [*ROOT.glob("loadtest/**/*.py"), *ROOT.glob("app/**/*.py")]
)


def page(name: str) -> str:
    """A document of docs/."""
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def words(line: str) -> str:
    """A line without its layout and with every number alike."""
    return re.sub(r"\d+(\.\d+)?", "N", " ".join(line.split()))


def a_run(guard: str, promise: str) -> Run:
    """Any run under this guard."""
    answer = Answer("buyer", Outcome.SOLD_OUT, "shop", waited_ms=1.0)
    verdict = judge(stock=0, stock_left=0, ledger=[], answers=[answer])
    run = Run.of(guard, promise, verdict, stock_left=0, answers=[answer])
    return run if promise != Promise.NONE.value else replace(run, verdict="OVERSOLD by 200")


def table_of_today() -> list[str]:
    """The lines of a comparison of all guards, as `words`."""
    runs = [a_run(guard.name, guard.promise.value) for guard in GUARDS]
    console = Console(file=io.StringIO(), width=80)
    console.print(table(Comparison(300, 500, "", {}, runs), width=80, plain=True))
    assert isinstance(console.file, io.StringIO)
    return [words(line) for line in console.file.getvalue().splitlines()]


def test_the_demo_is_shown_as_it_prints_today(readme_script: ModuleType) -> None:
    """README's run has today's guards, columns, verdicts and last lines; only the figures are its own."""
    shown = [words(line) for line in readme_script.part("demo", README).splitlines()]
    start = shown.index("N buyers, N items")
    end = next(number for number, line in enumerate(shown) if line.startswith("Every promise was kept."))
    plain_lines = [re.sub("^-+$", "-", line) for line in shown[start:end]]
    assert plain_lines == [re.sub("^-+$", "-", line) for line in table_of_today()]
    assert [line.split()[0] for line in shown if " sold in " in line] == [guard.name for guard in GUARDS]
    assert shown[end] == "Every promise was kept. Without a lock, N of N items were sold."
    assert shown[end + 1].startswith("Report: reports/")
    assert shown[1:3] == ["$ make demo", "Ready: etcd, redis, instance-N, instance-N"]


def test_readme_is_short() -> None:
    """It has at most 900 words, tables and output included, descriptions of pictures left out."""
    text = re.sub(r"<picture>.*?</picture>|<img .*?>", "", README, flags=re.DOTALL)
    assert len(text.split()) <= LONGEST


def test_the_table_of_guards_is_generated(readme_script: ModuleType) -> None:
    """Every guard of the shop, with its own description and promise."""
    assert readme_script.part("guards", page("guards")) == readme_script.guards()


def test_a_missing_part_is_named(readme_script: ModuleType) -> None:
    """The script refuses a README without the part that it should write."""
    with pytest.raises(ValueError, match="'weather'"):
        readme_script.part("weather", README)


def test_every_route_is_described() -> None:
    """docs/http-api.md lists all routes of the shop, and no others."""
    rules = {(min((rule.methods or set()) - {"HEAD"}), rule.rule) for rule in create_app().url_map.iter_rules()}
    assert set(re.findall(r"`(GET|POST|DELETE) (/[a-z/]*)", page("http-api"))) == rules


def test_every_command_exists() -> None:
    """What README tells to run can be run."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert targets >= {"demo", "test", "up"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in set(re.findall(r"docker-compose[a-z.-]*\.yml", README)):
        assert (ROOT / name).exists()


def anchors(document: Path) -> list[str]:
    """The headings of a document as links name them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    """Links into the repository point at files, and at headings that are there."""
    for target, anchor in re.findall(r"\]\((?!http)([^)#\s]*)#?([^)\s]*)\)", document.read_text(encoding="utf-8")):
        linked = document.parent / target if target else document
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"


def test_every_document_is_in_the_index() -> None:
    """docs/index.md says who needs which."""
    listed = set(re.findall(r"\]\((?:\.\./)?([\w.-]+)\.md", page("index")))
    assert listed == {path.stem for path in DOCUMENTS} - {"index"}


def test_troubles_are_quoted_as_they_are_said() -> None:
    """The messages in docs/troubleshooting.md are those of the programs."""
    for message in ("already in use: ", "No shop answers at ", "There is no such sale in Redis", " was refused: "):
        assert message.strip() in SOURCES
        assert message.strip(": ") in page("troubleshooting")
