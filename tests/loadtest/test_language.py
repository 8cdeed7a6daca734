"""The texts of commands, report and tab: both languages have them all, and Chinese fits where English does."""

from __future__ import annotations

import re
import string
from dataclasses import fields
from pathlib import Path

import pytest
from rich.cells import cell_len

import loadtest
from app.contract.outcomes import Promise
from app.contract.verdict import FINDINGS, Verdict
from app.guards import guards
from loadtest.language import CHINESE, ENGLISH, TEXTS, chinese_texts, verdict_in
from loadtest.report.build import write_report_page
from loadtest.results.comparison import Comparison
from loadtest.terminal import comparison_table
from tests.loadtest.report.test_report import kept
from tests.loadtest.rush.test_progress import oversold
from tests.support.terminal import printed

HAN = r"[\u4e00-\u9fff]"


def placeholders(text: str) -> set[str | None]:
    return {name for form in text.split("|") for _, name, _, _ in string.Formatter().parse(form)} - {None}


def test_both_languages_have_the_same_texts() -> None:
    """The same keys with the same placeholders; a Chinese text is Chinese. So are those of labs."""
    assert TEXTS[ENGLISH].keys() == TEXTS[CHINESE].keys()
    for english, chinese in [
        *((text, TEXTS[CHINESE][key]) for key, text in TEXTS[ENGLISH].items()),
        *chinese_texts().items(),
    ]:
        assert placeholders(english) == placeholders(chinese), english
        words = re.sub(r"\{.*?\}", "", chinese)
        assert re.search(HAN, words) or not re.search("[A-Za-z]", words), english


def test_every_text_is_used() -> None:
    """Each key is in the source, or begins with one that the source completes."""
    folder = Path(loadtest.__file__).parent
    source = "\n".join(path.read_text("utf-8") for path in folder.rglob("*") if path.suffix in (".py", ".html", ".css"))
    quoted = set(re.findall(r"""["']([a-z_]+(?:\.[\w ]+)?)["']""", source))
    begun = tuple(set(re.findall(r"""["']((?:head|lost|promise|tab)\.)(?:["']|\{)""", source)))
    unused = [key for key in TEXTS[ENGLISH] if key not in quoted and not key.startswith((*begun, "verdict."))]
    assert unused == []


def test_every_verdict_has_a_translation() -> None:
    """Whatever is wrong with a sale, only EXACT, OVERSOLD and UNDERSOLD stay beside the Chinese."""
    nothing = dict.fromkeys((field.name for field in fields(Verdict)), 0)
    wrong = [Verdict(**{**nothing, "undersold": 3, name: 2}) for name in nothing if name != "foreign"]
    for verdict in [*wrong, Verdict(**nothing), Verdict(**{**nothing, "foreign": 1})]:
        assert verdict_in(ENGLISH, verdict.findings) == verdict.sentence
        left = re.sub("EXACT|OVERSOLD|UNDERSOLD", "", verdict_in(CHINESE, verdict.findings))
        assert not re.search("[A-Za-z]", left), left
    assert {f"verdict.{name}" for name in FINDINGS} <= set(TEXTS[CHINESE])
    assert {f"promise.{promise.value}" for promise in Promise} <= set(TEXTS[CHINESE])


@pytest.mark.parametrize("plain", [True, False])
def test_a_chinese_table_fits_into_80_cells(plain: bool) -> None:
    """All guards, with verdicts as wide as they get, under Chinese headings."""
    comparison = Comparison(300, 500, "", {}, [oversold(guard) for guard in guards()])
    text = printed(comparison_table(comparison, width=80, plain=plain, language=CHINESE), width=80)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert {"守卫", "已售", "丢失的", "判定"} <= set(re.findall(f"{HAN}+", text))
    assert sum("OVERSOLD 超卖 200" in line for line in lines) == len(list(guards()))
    assert "…" not in text


def test_a_chinese_comparison_has_no_english_heading(tmp_path: Path) -> None:
    """The page says its language, which the player in it follows, and has each heading and axis in Chinese."""
    page = write_report_page(kept(tmp_path / "a"), language=CHINESE)
    assert_chinese(page.read_text(encoding="utf-8"))
    assert "所有守卫都兑现了承诺。" in page.read_text(encoding="utf-8")


def assert_chinese(html: str) -> None:
    assert '<html lang="zh">' in html
    names = r"<(style|script|pre|code|footer|dl|h3)\b.*?</\1>|(?<=<b class=\"name\">)\w+"  # and what stays as it is
    body = re.sub(names, "", html, flags=re.DOTALL)
    headings = re.findall(
        r"<(h[123]|thead th|th scope=\"col\"[^>]*|p|summary|title|nav[^>]*|a href=\"#[^>]*)>(.*?)</", body, re.DOTALL
    )
    assert len(headings) > 20
    texts = [re.sub("<[^>]*>", "", text) for _, text in headings]
    english = [text for text in texts if re.search(r"\b[a-z]{4,}", text) and not re.search(HAN, text)]
    assert english == []
    svg = re.findall(r"<text[^>]*>([^<]+)</text>", body)
    assert not [text for text in svg if re.search(r"\b(seconds|milliseconds|sold|read|once|after)\b", text)]
    for key in ("guards.note", "sold.title", "inside.title", "lost.first"):
        assert TEXTS[ENGLISH][key] not in html
