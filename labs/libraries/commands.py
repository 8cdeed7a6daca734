"""`libraries`: locks for Python side by side, each cell measured."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from labs.libraries.cases import CASES
from labs.libraries.catalogue import LIBRARIES, ORDER
from labs.libraries.page import DOCUMENTS, HERE, markdown
from labs.libraries.result import LibraryRow, LibraryTable
from labs.libraries.runner import LibraryRunner
from loadtest.cli.options import language
from loadtest.results.folders import point_latest, report_under_way
from loadtest.results.json_files import write_text_file
from loadtest.results.machine import about_machine
from loadtest.stack.process import scratch_directory
from loadtest.terminal import console

RESULT = "libraries.json"
NAMES = tuple(dict.fromkeys(LibraryRow(name).library for name in ORDER))


@click.command()
@click.option("--only", type=click.Choice(NAMES), multiple=True, help="Libraries; default: all.")
@click.option("--cases", type=click.Choice([case.name for case in CASES]), multiple=True, help="Default: all.")
@language
def libraries(only: tuple[str, ...], cases: tuple[str, ...], language: str) -> None:
    """Try each library in each case, and tell what was seen.

    Servers and libraries are installed by hash into build/libraries at the first run. A library whose server is not on
    this machine has that as its row.
    """
    screen, keeping = console(), threading.Lock()
    chosen = [library for library in LIBRARIES if LibraryRow(library.name).library in (only or NAMES)]
    wanted = [case for case in CASES if not cases or case.name in cases]
    with report_under_way() as report, scratch_directory() as directory:
        file, table = report / RESULT, LibraryTable(about_machine())

        def tell(library: str, column: str, observed: str) -> None:
            screen.print(f"{library:<20} {column:<16} {observed}")

        def keep(row: LibraryRow) -> None:
            with keeping:
                table.merge(row, ORDER)
                table.write(file)

        LibraryRunner(directory, tell, keep).run(chosen, wanted)
        point_latest(report)
    page = file.with_suffix(".md")
    write_text_file(page, markdown(table, language))
    screen.print(f"Page: {page}", soft_wrap=True)


@click.command("libraries-page")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def libraries_page(file: Path) -> None:
    """Write the page of a result into labs/libraries, in both languages."""
    table = LibraryTable.read(file)
    for each, name in DOCUMENTS.items():
        write_text_file(HERE / name, markdown(table, each))
