"""Whole runs: our lock and redis-py's on real servers, and a lock that is none; and how runs become a cell."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from labs.libraries import commands, runner
from labs.libraries.cases import CASES, COLUMNS, leases
from labs.libraries.cases.case import CellAnswer, no, yes
from labs.libraries.cases.contention import judge_tokens
from labs.libraries.cases.faults import judge_broken, judge_lost
from labs.libraries.cases.leases import judge_told
from labs.libraries.cases.waiting import judge_timeout
from labs.libraries.catalogue import LIBRARIES, Library
from labs.libraries.page import PROMISES, WORDS, Words, cell_text, markdown
from labs.libraries.result import VARIES, CaseRun, Cell, LibraryRow, LibraryTable
from labs.libraries.runner import LibraryRunner
from labs.libraries.stores.redis import RedisStore
from labs.libraries.stores.store import FileStore
from loadtest import REPOSITORY

KNOWN = {library.name: library for library in LIBRARIES}
# redis-py is in this environment as well: nothing is installed.
THREADS, TASKS = (dataclasses.replace(KNOWN[f"redis-py ({way})"], requirements="") for way in ("threads", "asyncio"))
NO_LOCK = Library("none", str(Path(__file__).with_name("broken.py")), RedisStore)

# flock of the standard library.
FILES = """
import fcntl
from harness import LockAdapter

class Adapter(LockAdapter):
    gives_up = BlockingIOError

    def __init__(self, address):
        self.directory = address

    def acquire(self, name, ttl, timeout, flags=fcntl.LOCK_EX):
        file = open(f"{self.directory}/{name}", "w")
        fcntl.flock(file, flags)
        return file

    def attempt(self, name, ttl):
        return self.acquire(name, ttl, 0, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self, file):
        file.close()

    def held(self, file):
        return True
"""


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case once: three times takes minutes."""
    monkeypatch.setattr(runner, "TIMES", 1)


def run(library: Library, directory: Path, *cases: str) -> LibraryRow:
    rows: list[LibraryRow] = []
    chosen = [case for case in CASES if case.name in cases]
    LibraryRunner(directory, lambda *_: None, rows.append).run([library], chosen)
    (row,) = rows
    assert not row.missing, row.missing
    assert not any(cell.failed for cell in row.cells.values()), row
    return row


def observed(row: LibraryRow) -> dict[str, str]:
    return {column: cell.observed for column, cell in row.cells.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("library", "token"), [(KNOWN["ours"], "yes"), (TASKS, "not offered")])
def test_two_libraries_keep_what_a_lock_is_for(library: Library, token: str, tmp_path: Path) -> None:
    """Contenders are alone inside, a body never runs unlocked, and a wait ends in time."""
    row = run(library, tmp_path, "exclusion", "body", "timeout")
    assert observed(row) == {"exclusion": "yes", "body": "yes", "timeout": "yes", "token": token}


@pytest.mark.slow
def test_a_call_that_is_left_to_its_user_is_by_hand(tmp_path: Path) -> None:
    """redis-py's lock ends with its TTL, and holds on if `reacquire` is called in time; an attempt does not wait."""
    assert observed(run(THREADS, tmp_path, "timeout", "renewal")) == {"timeout": "yes", "renewal": "by hand"}


@pytest.mark.parametrize(
    ("cases", "failed"),
    [
        (["exclusion", "body", "renewal"], ["exclusion", "token", "body", "renewal"]),
        (["timeout", "deleted"], ["timeout", "deleted"]),
        (["paused"], ["woken", "late_release"]),
    ],
)
def test_a_lock_that_is_none_fails(
    cases: list[str], failed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every case that it must fail is a *no*, with what happened and a command on the page."""
    monkeypatch.setattr(leases, "TOLD_S", 1.0)
    row = run(NO_LOCK, tmp_path, *cases)
    assert observed(row) == dict.fromkeys(failed, "no")
    table = LibraryTable({}, [row])
    table.write(tmp_path / "libraries.json")
    page = markdown(LibraryTable.read(tmp_path / "libraries.json"), "en")
    for column in failed:
        assert f'<a id="none-{column.replace("_", "-")}"></a>' in page
        assert f"](#none-{column.replace('_', '-')})" in page
    assert f"make libraries ARGS=\"--only 'none' --cases {cases[0]}\"" in page


def test_a_lock_of_one_machine_offers_nothing_that_takes_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What breaks the server is *not offered*; that a holder that stands still blocks everyone is an own answer."""
    monkeypatch.setattr(leases, "FREED_S", 4.0)
    adapter = tmp_path / "files.py"
    adapter.write_text(FILES)
    files = Library("files", str(adapter), FileStore)
    row = run(files, tmp_path, "exclusion", "paused", "restart", "cut", "lost-answer")
    broken = dict.fromkeys(("restart_held", "restart_waiting", "cut", "lost_answer"), "not offered")
    blocks = dict.fromkeys(("woken", "late_release"), "blocks everyone")
    assert observed(row) == {"exclusion": "yes", "token": "not offered", **blocks, **broken}


def test_a_cell_says_what_it_holds_for() -> None:
    """A Redis that writes to disk first, a kill that PostgreSQL sees at once, a TTL that is short enough."""
    free = yes("free", s=0.04, ttl=3)
    cells = {"restart_held": Cell([CaseRun(yes("stays_alone"))]), "killed": Cell([CaseRun(free)])}
    words = Words("en")
    redis, postgresql = (LibraryRow("tooz", server=name, cells=cells) for name in ("Valkey 9.1.2", "PostgreSQL 15.18"))
    assert cell_text(words, redis, "restart_held") == "(yes with `appendfsync always`)"
    assert cell_text(words, postgresql, "killed") == "(yes, 0.0 s on one machine)"
    short = LibraryRow("python-redis-lock", cells=cells)
    assert cell_text(words, short, "killed") == "yes, 0.0 s with `expire` up to 5 s"


def test_a_library_that_does_not_start_has_that_as_its_row(tmp_path: Path) -> None:
    """The row names the exception of its import, and the page shows it."""
    adapter = tmp_path / "absent.py"
    adapter.write_text("import a_library_that_is_absent\n")
    rows: list[LibraryRow] = []
    LibraryRunner(tmp_path, lambda *_: None, rows.append).run([Library("absent", str(adapter), RedisStore)], CASES[:1])
    assert rows[0].missing == "ModuleNotFoundError: No module named 'a_library_that_is_absent'"
    assert rows[0].missing in markdown(LibraryTable({}, rows), "zh")


def test_a_result_has_its_page_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is tried anew keeps its other cells, each with its day."""
    old, new = Cell([CaseRun(yes("alone", n=60))], day="2026-01-01"), Cell([CaseRun(no("body_ran"))], day="2026-01-02")
    table = LibraryTable({}, [LibraryRow("kazoo", cells={"exclusion": old})])
    table.merge(LibraryRow("kazoo", "kazoo 2.11.0", cells={"body": new}), ["kazoo"])
    table.write(tmp_path / "libraries.json")
    monkeypatch.setattr(commands, "HERE", tmp_path)
    assert CliRunner().invoke(commands.libraries_page, [str(tmp_path / "libraries.json")]).exit_code == 0
    page = (tmp_path / "table.md").read_text()
    assert "| [no](#kazoo-body) |" in page
    assert " | 2026-01-01 / 2026-01-02 |" in page


# The judge: what the cases read from what was seen, and how three runs become a cell.


KEPT: dict[str, Any] = {"took_s": 1.0, "offered": True, "takes_free": True, "waits": False, "lag_s": 0.0}
BROKEN = {"other": False, "told": False, "failed": False, "served": True}
LOST: dict[str, Any] = {"acquired": False, "answered_s": 0.1, "free_s": 0.1, "lag_s": 0.0}
TOLD = {"told": yes("told", s=0.1), "offered": True, "refused": False}
Answers = list[tuple[dict[str, Any], str]]  # what was seen otherwise, and what it comes to
JUDGED: list[tuple[Any, dict[str, Any], Answers]] = [
    (
        judge_timeout, KEPT, [
            ({}, "yes"), ({"took_s": None}, "no"), ({"took_s": 2.5}, "no"), ({"took_s": 2.5, "lag_s": 1.0}, "yes"),
            ({"took_s": 0.2}, "partly"), ({"takes_free": False}, "partly"), ({"offered": False}, "partly"),
            ({"waits": True}, "partly"),
        ],
    ),
    (
        judge_told, TOLD, [
            ({"told_s": 0.1}, "yes"), ({"told_s": None, "refused": True}, "partly"), ({"told_s": None}, "no"),
            ({"told_s": None, "offered": False}, "not offered"),
        ],
    ),
    (
        lambda **seen: judge_broken(**seen)[0], BROKEN, [
            ({}, "yes"), ({"other": True, "told": True}, "partly"), ({"other": True}, "no"),
        ],
    ),
    (
        lambda **seen: judge_broken(**seen)[1], BROKEN, [
            ({}, "yes"), ({"failed": True}, "partly"), ({"served": False}, "no"),
        ],
    ),
    (
        judge_lost, LOST, [
            ({}, "yes"), ({"free_s": 5.0}, "no"), ({"free_s": None}, "no"), ({"answered_s": 5.0}, "partly"),
            ({"acquired": True}, "no"), ({"acquired": True, "free_s": None}, "yes"),
            ({"acquired": True, "free_s": None, "answered_s": 5.0}, "partly"),
        ],
    ),
    (
        judge_tokens, {}, [
            ({"tokens": [3, 7, 9]}, "yes"), ({"tokens": [3, 7, 7]}, "no"), ({"tokens": [None, None]}, "not offered"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "seen", "answers"), JUDGED)
def test_a_case_reads_what_was_seen(judge: Any, seen: dict[str, Any], answers: Answers) -> None:
    """It has one answer, whose sentence exists in both languages; runs that do not agree vary."""
    findings = [judge(**{**seen, **changes}) for changes, _ in answers]
    assert [finding.answer.value for finding in findings] == [answer for _, answer in answers]
    for finding in findings:
        assert [sentence.format(**finding.about) for sentence in WORDS["seen"][finding.seen].values()]
    assert Cell([CaseRun(finding) for finding in findings]).observed == VARIES


def test_each_word_stands_in_both_languages() -> None:
    """Columns, answers, sentences and events have no gap, and each promise is about a column and quotes a page."""
    assert list(WORDS["columns"]) == list(COLUMNS)
    assert {*WORDS["answers"]} == {*(answer.value for answer in CellAnswer if answer.value != "figure"), VARIES, ""}
    for part in ("columns", "answers", "seen", "events", "page"):
        assert all({*texts} == {"en", "zh"} for texts in WORDS[part].values())
    for library in PROMISES.values():
        assert {*library["promises"]} <= {*COLUMNS}
        assert {page for _, _, page in library["promises"].values()} <= {*library["pages"]}


def test_our_own_promises_stand_in_our_documents() -> None:
    """Each quotation is there, word for word but for its line breaks."""
    texts = {key: (REPOSITORY / name).read_text() for key, (name, _) in PROMISES["ours"]["pages"].items()}
    pages = {key: " ".join(text.split()) for key, text in texts.items()}
    missing = [quote for _, quote, page in PROMISES["ours"]["promises"].values() if quote not in pages[page]]
    assert missing == []
