"""`report`: what was kept, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from jinja2 import TemplateError
from rich.console import Console

from loadtest.report.pages import benchmark as bench
from loadtest.report.pages import comparison as rush
from loadtest.report.pages import records as kept
from loadtest.report.pages import versus
from loadtest.report.sources import Bench, ReportError, Rush, Source, read
from loadtest.results.folders import latest

PAGE = "index.html"
VERSUS = "versus.html"  # the page of two, which may not take the place of the page of one


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Default: {PAGE} beside FILE; {VERSUS} for two.",
)
def report(files: Sequence[Path], output: Path | None) -> None:
    """Make a page of a comparison, of records or of a benchmark; of two of a kind, compare them side by side."""
    if len(files) > 2:
        raise click.UsageError("one FILE is shown, two are compared; these are more.")
    try:
        chosen = files or [latest()]
    except FileNotFoundError:
        raise click.ClickException("there is no report yet: make demo") from None
    try:
        click.echo(f"Report: {write(chosen, output)}")
    except ReportError as error:
        raise click.ClickException(str(error)) from error
    except (AttributeError, LookupError, TemplateError, TypeError, ValueError) as error:
        # What this program wrote can be shown; what was changed since may be anything.
        raise click.ClickException(f"{' or '.join(map(str, chosen))} is damaged: {error}") from error


def draw(directory: Path, screen: Console) -> None:
    """Make the page of a report that was just written, and say where it is."""
    with screen.status("drawing the report"):
        page = write([directory])
    screen.print(f"Report: {page}", highlight=False, soft_wrap=True)


def write(files: Sequence[Path], output: Path | None = None) -> Path:
    """Make the page, and return where it was written; raises ReportError."""
    sources = [read(file) for file in files]
    directory = files[0] if files[0].is_dir() else files[0].parent
    where = output or directory / (PAGE if len(files) == 1 else VERSUS)
    drawn = page(sources)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"{where} cannot be written: {error.strerror}") from error
    return where


def page(sources: Sequence[Source]) -> str:
    """The page of one source, or of two; raises ReportError."""
    if len(sources) > 1:
        return versus.page(*sources)
    (source,) = sources
    if isinstance(source, Rush):
        return rush.page(source)
    return bench.page(source) if isinstance(source, Bench) else kept.page(source)
