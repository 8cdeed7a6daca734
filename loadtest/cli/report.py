"""`report`: kept results as a page, alone or beside others."""

from __future__ import annotations

from pathlib import Path

import click

from loadtest.report.build import PAGE, VERSUS, write
from loadtest.results.folders import LATEST


@click.command()
@click.argument("file", default=LATEST, type=click.Path(path_type=Path))
@click.argument("other", required=False, type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help=f"Default: {PAGE} beside FILE; {VERSUS} for two."
)
def report(file: Path, other: Path | None, output: Path | None) -> None:
    """Make a page of a comparison, of records or of a benchmark.

    Without FILE it is of the newest report. With OTHER, two comparisons or two benchmarks are compared.
    """
    if file == LATEST and not file.exists():
        raise click.ClickException("there is no report yet: make demo")
    try:
        click.echo(f"Report: {write(file, output, other=other)}")
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A file that was changed since it was written may have any value.
        raise click.ClickException(f"{f'{file} or {other}' if other else file} is damaged: {error}") from error
