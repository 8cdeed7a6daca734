"""One click, traced as `make up` runs it: how much of the shop and the lock a purchase passes through.

``pytest -s`` on this file prints the files and calls of each top folder.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest
from flask import Flask

from tests.support.shops import buy

ROOT = Path(__file__).parents[2]
LISTED = re.compile(r"\[`((?:app|lock)/[\w/]+\.py)`\]")
MOST = {"app": (14, 62), "lock": (16, 115)}  # files and calls


@pytest.fixture
def click(make: Callable[..., Flask], tmp_path: Path) -> list[str]:
    """The files of the calls of a purchase under etcd, not contended, of a shop that has sold before and keeps a log.

    In its own thread, as under gunicorn: the main thread's calls are made by another one.
    """
    shop, files = make(section_log=tmp_path), list[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and ".venv" not in path.parts:
            files.append(path.relative_to(ROOT).as_posix())

    def buy_traced() -> None:
        assert [buy(shop)["status"] for _ in range(3)] == [200] * 3
        sys.setprofile(note)
        try:
            assert buy(shop)["status"] == 200
        finally:
            sys.setprofile(None)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(buy_traced).result()
    return files


@pytest.mark.flaky(reruns=1, reason="a look of the session that is due may fall into the click")
def test_a_click_passes_through_few_files_and_calls(click: list[str]) -> None:
    """Context managers in context managers, and parameters that are read again and again, would show here."""
    for folder, (most_files, most_calls) in MOST.items():
        calls = Counter(file for file in click if file.startswith(f"{folder}/"))
        print(f"{folder}: {len(calls)} files, {calls.total()} calls: {calls.most_common()}")
        assert len(calls) <= most_files
        assert calls.total() <= most_calls


def test_the_architecture_page_lists_what_a_reader_opens(click: list[str]) -> None:
    """Each file that it lists for a click is in the trace."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listed = set(LISTED.findall(page.split("\n## One click")[1].split("\n## ")[0]))
    assert 8 <= len(listed) <= 12
    assert listed <= {*click}
