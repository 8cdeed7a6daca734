"""Whole runs: our lock and redis-py's on real servers, and a lock that is none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.libraries import runner
from labs.libraries.cases import leases
from labs.libraries.cases.case import LockCase, no, yes
from labs.libraries.cases.contention import Exclusion
from labs.libraries.cases.faults import Cut, LostAnswer, Restart
from labs.libraries.cases.leases import KeyDeleted, Paused, Renewal, TokenRises
from labs.libraries.cases.waiting import Abandoned, Body, Timeout
from labs.libraries.catalogue import LIBRARIES, Library
from labs.libraries.page import Words, choices, html, markdown
from labs.libraries.result import CaseRun, Cell, LibraryRow, LibraryTable
from labs.libraries.runner import LibraryRunner
from labs.libraries.stores.files import FileStore
from labs.libraries.stores.redis import RedisStore
from loadtest.cli.main import cli

# redis-py is in this environment as well: nothing is installed.
REDIS_PY = dataclasses.replace(LIBRARIES["redis-py"], requirements="")

# flock of the standard library.
FILES = """
import fcntl
from harness import LockAdapter, serve

class Files(LockAdapter):
    def __init__(self, address):
        self.directory = address

    def acquire(self, name, ttl, timeout):
        file = open(f"{self.directory}/{name}", "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def release(self, file):
        file.close()

serve(Files)
"""


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case once: three times takes minutes."""
    monkeypatch.setattr(runner, "TIMES", 1)


def run(library: Library, directory: Path, *cases: LockCase) -> LibraryRow:
    rows: list[LibraryRow] = []
    LibraryRunner(directory, lambda *_: None, rows.append).run([library], cases)
    (row,) = rows
    assert not row.missing, row.missing
    return row


def observed(row: LibraryRow) -> dict[str, str]:
    return {column: cell.observed for column, cell in row.cells.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("library", "token"), [(LIBRARIES["ours"], "yes"), (REDIS_PY, "not offered")])
def test_two_libraries_keep_what_a_lock_is_for(library: Library, token: str, tmp_path: Path) -> None:
    """Contenders are alone inside, a body never runs unlocked, and a wait that ends leaves nothing."""
    row = run(library, tmp_path, Exclusion(), Body(), Abandoned(), TokenRises())
    assert observed(row) == {"exclusion": "yes", "body": "yes", "abandoned": "yes", "token": token}


@pytest.mark.parametrize(
    ("cases", "failed"),
    [
        ((Exclusion(), Body(), Renewal()), ["exclusion", "body", "renewal"]),
        ((Timeout(), TokenRises(), KeyDeleted()), ["timeout", "token", "deleted"]),
        ((Paused(),), ["woken", "late_release"]),
    ],
)
def test_a_lock_that_is_none_fails(
    cases: tuple[LockCase, ...], failed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every case that it must fail is a *no*, with a history and a command on both pages."""
    monkeypatch.setattr(leases, "TOLD_S", 1.0)
    row = run(Library("none", str(Path(__file__).with_name("broken.py")), RedisStore), tmp_path, *cases)
    assert observed(row) == dict.fromkeys(failed, "no")
    table = LibraryTable("2026-01-01T00:00:00+00:00", {}, [row])
    table.write(tmp_path / "libraries.json")
    page = markdown(LibraryTable.read(tmp_path / "libraries.json"), "en")
    for column in failed:
        assert f'id="none-{column.replace("_", "-")}"' in page
        assert f'id="none-{column.replace("_", "-")}"' in html(table)
    assert f"make libraries ARGS=\"--only 'none' --cases {cases[0].name}\"" in page


def test_a_lock_of_one_machine_offers_nothing_that_takes_a_server(tmp_path: Path) -> None:
    """What breaks the server, or the way to it, is *not offered*; processes of this machine exclude each other."""
    adapter = tmp_path / "files.py"
    adapter.write_text(FILES)
    row = run(Library("files", str(adapter), FileStore), tmp_path, Exclusion(), Restart(), Cut(), LostAnswer())
    broken = dict.fromkeys(("restart_held", "restart_waiting", "cut", "lost_answer"), "not offered")
    assert observed(row) == {"exclusion": "yes", **broken}


def test_the_questions_are_answered_by_cells() -> None:
    """A row is named where all cells of a question are *yes*; servers list their rows, the fewest *no* first."""
    cells = {"token": Cell([CaseRun(yes("rises", tokens="1 2"))]), "woken": Cell([CaseRun(no("never_told"))])}
    told = {column: Cell([CaseRun(yes("told_before"))]) for column in ("woken", "deleted")}
    rows = [LibraryRow("one", server="etcd 3.5.1", cells=cells), LibraryRow("two", server="etcd 3.6.0", cells=told)]
    *_, token, server = choices(LibraryTable("2026-01-01", {}, rows), Words("en"))
    assert token.endswith(
        "*token*: one. If not, ask the library before each write; *told on waking* and *deleted* are *yes* for two."
    )
    assert server.endswith("etcd: two (0), one (1).")


def test_an_unknown_library_is_named() -> None:
    """One line says which ones there are."""
    done = CliRunner().invoke(cli, ["libraries", "--only", "redis-py,nope"])
    assert done.exit_code == 2
    assert "'nope' is none of ours, " in done.output


def test_a_library_that_does_not_start_has_that_as_its_row(tmp_path: Path) -> None:
    """The row names the exception of its import, and the page shows it."""
    adapter = tmp_path / "absent.py"
    adapter.write_text("import a_library_that_is_absent\n")
    rows: list[LibraryRow] = []
    library = Library("absent", str(adapter), RedisStore)
    LibraryRunner(tmp_path, lambda *_: None, rows.append).run([library], [Exclusion()])
    assert rows[0].missing == "ModuleNotFoundError: No module named 'a_library_that_is_absent'"
    assert rows[0].missing in markdown(LibraryTable("2026-01-01", {}, rows), "zh")


def test_a_result_is_shown_again(tmp_path: Path) -> None:
    """Its columns stand under what was seen, and a row that is tried anew keeps its other cells."""
    alone, body = Cell([CaseRun(yes("alone", n=60))]), Cell([CaseRun(no("body_ran"))])
    table = LibraryTable("2026-01-01", {}, [LibraryRow("redis-py", cells={"exclusion": alone})])
    table.merge(LibraryRow("redis-py", "8.1.0", cells={"body": body}), ["redis-py"])
    table.write(tmp_path / "libraries.json")
    done = CliRunner().invoke(cli, ["libraries-page", str(tmp_path / "libraries.json")])
    assert "redis-py 8.1.0\n  yes: alone\n  no: body\n" in done.output
    assert (tmp_path / "index.html").exists()
