"""Tries libraries side by side, each on a server of its own, and the cases that measure alone, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from labs.libraries.cases.case import NOT_OFFERED, CellAnswer, LockCase
from labs.libraries.catalogue import Library
from labs.libraries.program import NotTried
from labs.libraries.result import CaseRun, Cell, LibraryRow
from labs.libraries.stores.store import NeedsServer, Store
from labs.libraries.trial import LockTrial
from loadtest.stack.process import ServerError

SIDE_BY_SIDE = 4
TIMES = 3  # for a *no*, and for what chance decides
MOST_LAG_S = 1.0  # a run in which this process was later than that is not judged ...
MOST_TRIES = 3  # ... unless it is late each time
Report = Callable[[str, str, str], None]  # library, column, what was observed
Keep = Callable[[LibraryRow], None]


class LibraryRunner:
    """Fills rows; `report` is told of each cell, and `keep` of each row as soon as it is whole."""

    def __init__(self, directory: Path, report: Report, keep: Keep) -> None:
        self._directory, self._report, self._keep, self._installing = directory, report, keep, threading.Lock()

    def run(self, libraries: Sequence[Library], cases: Sequence[LockCase]) -> None:
        """Make a row for each library with the cells of these cases; those that measure alone come last."""
        together, alone = [case for case in cases if not case.alone], [case for case in cases if case.alone]
        if together:
            with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                for _ in pool.map(partial(self._try, cases=together), libraries):
                    pass  # raises what a thread raised
        if alone:
            for library in libraries:
                self._try(library, alone)

    def _try(self, library: Library, cases: Sequence[LockCase]) -> None:
        row = LibraryRow(library.name)
        directory = self._directory / library.name.replace(" ", "-")
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with self._installing:
                library.program()
            with library.store(directory) as store:
                program = library.launch(store.address, directory)
                program.kill()
                row.server, row.version = store.version(), library.version or program.version
                for case in cases:
                    row.cells |= self._cells(library, case, store, directory)
        except (NotTried, ServerError, OSError) as error:
            row.missing = str(error)
            self._report(library.name, "", row.missing)
        self._keep(row)

    def _cells(self, library: Library, case: LockCase, store: Store, directory: Path) -> dict[str, Cell]:
        """The cells of a case: tried once, and three times where an answer is *no* or chance decides."""
        cells = {column: Cell(day=f"{datetime.now(timezone.utc):%Y-%m-%d}") for column in case.columns}
        for number in range(TIMES):
            try:
                runs = try_once(library, case, store, directory)
            except NeedsServer:
                runs = [CaseRun(NOT_OFFERED) for _ in cells]
            except (NotTried, ServerError) as error:
                for cell in cells.values():
                    cell.failed = str(error)
                break
            for cell, run in zip(cells.values(), runs, strict=True):
                cell.runs.append(run)
            if number == 0 and not case.races and all(run.finding.answer is not CellAnswer.NO for run in runs):
                break
        for column, cell in cells.items():
            self._report(library.name, column, cell.observed or cell.failed)
        return cells


def try_once(library: Library, case: LockCase, store: Store, directory: Path) -> list[CaseRun]:
    """One run of a case, and another one if this machine was too slow to judge; raises NotTried."""
    launch = partial(library.launch, directory=directory)
    for _ in range(MOST_TRIES):
        with LockTrial(case.name, store, directory, launch, library.waiters) as trial:
            findings = case.run(trial)
        if trial.lag_s < MOST_LAG_S:
            break
    judged = (CellAnswer.YES, CellAnswer.NOT_OFFERED, CellAnswer.FIGURE)
    return [CaseRun(each, [] if each.answer in judged else trial.events) for each in findings]
