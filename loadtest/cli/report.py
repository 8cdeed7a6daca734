"""`report`: kept results as a page."""

from __future__ import annotations

from pathlib import Path

import click

from loadtest.report.build import PAGE, write_report_page
from loadtest.results.folders import LATEST


@click.command()
@click.argument("file", default=LATEST, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help=f"Default: {PAGE} beside FILE.")
def report(file: Path, output: Path | None) -> None:
    """Make a page of kept results; default: the newest report."""
    if file == LATEST and not file.exists():
        raise click.ClickException("there is no report yet: make demo")
    try:
        click.echo(f"Report: {write_report_page(file, output)}")
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A file that was changed since it was written may have any value.
        raise click.ClickException(f"{file} is damaged: {error}") from error
