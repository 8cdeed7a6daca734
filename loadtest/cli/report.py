"""`report`: kept results as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from jinja2 import TemplateError

from loadtest.report.build import PAGE, VERSUS, write
from loadtest.results.folders import latest
from loadtest.results.kept import KeptError


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help=f"Default: {PAGE} beside FILE; {VERSUS} for two."
)
def report(files: Sequence[Path], output: Path | None) -> None:
    """Make a page of a comparison, of records or of a benchmark.

    Two of a kind are compared side by side.
    """
    if len(files) > 2:
        raise click.UsageError("one FILE is shown, two are compared; these are more.")
    try:
        chosen = files or [latest()]
    except FileNotFoundError:
        raise click.ClickException("there is no report yet: make demo") from None
    try:
        click.echo(f"Report: {write(chosen, output)}")
    except KeptError as error:
        raise click.ClickException(str(error)) from error
    except (ArithmeticError, AttributeError, LookupError, TemplateError, TypeError, ValueError) as error:
        # A file that was changed since it was written may have any value.
        raise click.ClickException(f"{' or '.join(map(str, chosen))} is damaged: {error}") from error
