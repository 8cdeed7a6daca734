"""`report`: kept results as a page."""

from __future__ import annotations

from pathlib import Path

import click

from loadtest.cli.options import language
from loadtest.language import text_in
from loadtest.report.build import PAGE, write_report_page
from loadtest.results.folders import LATEST


@click.command()
@click.argument("file", default=LATEST, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help=f"Default: {PAGE} beside FILE.")
@language
def report(file: Path, output: Path | None, language: str) -> None:
    """Make a page of kept results; default: the newest report."""
    if file == LATEST and not file.exists():
        raise click.ClickException("there is no report yet: make demo")
    try:
        click.echo(text_in(language, "report.path", page=write_report_page(file, output, language)))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A file that was changed since it was written may have any value.
        raise click.ClickException(f"{file} is damaged: {error}") from error
