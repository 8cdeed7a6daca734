"""Whole runs: our lock and redis-py's on real servers, and a lock that is none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from labs.libraries import runner
from labs.libraries.cases import leases
from labs.libraries.cases.case import LockCase
from labs.libraries.cases.contention import Exclusion
from labs.libraries.cases.leases import KeyDeleted, Paused, Renewal, TokenRises
from labs.libraries.cases.waiting import Abandoned, Body, Timeout
from labs.libraries.catalogue import LIBRARIES, Library
from labs.libraries.page import html, markdown
from labs.libraries.result import LibraryRow, LibraryTable
from labs.libraries.runner import LibraryRunner
from labs.libraries.stores.redis import RedisStore

# redis-py is in this environment as well: nothing is installed.
REDIS_PY = dataclasses.replace(LIBRARIES["redis-py"], requirements="")


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case once: three times takes minutes."""
    monkeypatch.setattr(runner, "TIMES", 1)


def run(library: Library, directory: Path, *cases: LockCase) -> LibraryRow:
    (row,) = LibraryRunner(directory, lambda *_: None).rows([library], cases)
    assert not row.missing, row.missing
    return row


def observed(row: LibraryRow) -> dict[str, str]:
    return {column: cell.observed for column, cell in row.cells.items()}


@pytest.mark.parametrize(("library", "token"), [(LIBRARIES["ours"], "yes"), (REDIS_PY, "not offered")])
def test_two_libraries_keep_what_a_lock_is_for(library: Library, token: str, tmp_path: Path) -> None:
    """Contenders are alone inside, a body never runs unlocked, and a wait that ends leaves nothing."""
    row = run(library, tmp_path, Exclusion(), Body(), Abandoned(), TokenRises())
    assert observed(row) == {"exclusion": "yes", "body": "yes", "abandoned": "yes", "token": token}


def test_a_lock_that_is_none_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case that it must fail is a *no*, with a history and a command on both pages."""
    monkeypatch.setattr(leases, "TOLD_S", 1.0)
    broken = Library("none", str(Path(__file__).with_name("broken.py")), RedisStore)
    cases = (Exclusion(), Body(), Timeout(), Renewal(), Paused(), TokenRises(), KeyDeleted())
    row = run(broken, tmp_path, *cases)
    failed = {column for column, answer in observed(row).items() if answer == "no"}
    assert failed == {"exclusion", "body", "timeout", "renewal", "woken", "late_release", "token", "deleted"}
    table = LibraryTable("2026-01-01T00:00:00+00:00", {}, [row])
    table.write(tmp_path / "libraries.json")
    page = markdown(LibraryTable.read(tmp_path / "libraries.json"), "en")
    for column in failed:
        assert f'id="none-{column.replace("_", "-")}"' in page
        assert f'id="none-{column.replace("_", "-")}"' in html(table)
    assert "make libraries ARGS=\"--only 'none' --cases exclusion\"" in page
