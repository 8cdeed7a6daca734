"""`grade`: the points of a guard in a file, or of a class of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from labs.grade.stages import STAGES, Result, Status
from loadtest.results.comparison import NO_RESULT
from loadtest.results.json_files import write_text_file
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import DASHES, console

_FILE = click.Path(resolve_path=True, path_type=Path)
_COLOURS = {Status.PASSED: "green", Status.FAILED: "red", Status.NOT_RUN: "dim", Status.NO_VERDICT: "yellow"}
_FEWER = 1  # exit code: not all points


class NoGrade(click.ClickException):
    """A file cannot be graded; the message is one line that says what to do."""

    exit_code = NO_RESULT


@click.command()
@click.argument("paths", nargs=-1, required=True, type=_FILE, metavar="PATH...")
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path), help="Gradescope's results.json.")
def grade(paths: Sequence[Path], output: Path | None) -> None:
    """Grade a guard in a file, or several, each in its file: docs/assignment.md.

    Runs the file, so it is no sandbox. Exits with 0 for all points, with 1 for fewer, with 2 if there is no verdict.
    """
    if missing := next((path for path in paths if not path.is_file()), None):
        raise click.UsageError(f"{missing} is not a file: name a file with a guard.")
    if output and len(paths) > 1:
        raise click.UsageError("--json takes the result of one file: grade each by its own command.")
    screen = console()
    graded = {path: _graded(path, screen) for path in paths}
    if output:
        write_text_file(output, json.dumps(_gradescope(graded[paths[0]]), indent=2) + "\n")
    if len(graded) > 1:
        screen.print(_table(graded, plain=not screen.is_terminal))
    sys.exit(max(map(_exit_code, graded.values())))


def _graded(path: Path, screen: Console) -> list[Result]:
    """The results of a file, which are shown as they come."""
    try:
        from labs.grade.grading import grade
    except ModuleNotFoundError as error:
        raise NoGrade(f"labs/grade needs labs/steps ({error}): get it back.") from error
    screen.print(path.name, style="bold", markup=False)
    results = []
    try:
        with scratch_directory() as directory:
            for result in grade(path, directory):
                results.append(result)
                _show(result, screen)
    except ServerError as error:
        raise NoGrade(f"no verdict on {path.name}: {error.message}") from error
    screen.print(f"{sum(each.score for each in results)} of {sum(each.points for each in STAGES)} points\n")
    return results


def _show(result: Result, screen: Console) -> None:
    score = f"{result.score:>4}/{result.stage.points:<3}"
    screen.print(f"{score} {result.stage.title}", style=_COLOURS[result.status], markup=False)
    for line in result.output.splitlines():
        screen.print(f"         {line}", markup=False, soft_wrap=True)


def _table(graded: dict[Path, list[Result]], *, plain: bool) -> Table:
    """A row for each file, sorted by name."""
    table = Table(box=DASHES if plain else None, pad_edge=False)
    table.add_column("file")
    for name in (*(stage.name for stage in STAGES), "points"):
        table.add_column(name, justify="right")
    for path, results in sorted(graded.items()):
        scores = [str(each.score) if each.status is not Status.NO_VERDICT else "?" for each in results]
        table.add_row(path.name, *scores, str(sum(each.score for each in results)))
    return table


def _gradescope(graded: Sequence[Result]) -> dict[str, Any]:
    """A test for each stage, as ``results.json`` of https://gradescope-autograders.readthedocs.io."""
    return {
        "output_format": "text",
        "tests": [
            {
                "name": each.stage.title,
                "score": each.score,
                "max_score": each.stage.points,
                "status": "passed" if each.score else "failed",
                "output": each.output,
                "visibility": "visible",
            }
            for each in graded
        ],
    }


def _exit_code(results: Sequence[Result]) -> int:
    if any(each.status is Status.NO_VERDICT for each in results):
        return NO_RESULT
    return 0 if all(each.status is Status.PASSED for each in results) else _FEWER
