"""The commands of python -m loadtest."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

import click

from loadtest.cli.audit import audit_records
from loadtest.cli.bench import bench, bench_lock, write_performance
from loadtest.cli.compare import compare
from loadtest.cli.demo import demo
from loadtest.cli.faults import faults
from loadtest.cli.report import report
from loadtest.cli.simulate import simulate
from loadtest.cli.up import up
from loadtest.cli.workshop import workshop
from loadtest.report.sources import ReportError
from loadtest.results.folders import ReportsError
from loadtest.stack.process import ServerError
from loadtest.target.shops import SaleError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the flash sale on this machine, without Docker."""


for command in (
    demo,
    workshop,
    up,
    compare,
    faults,
    audit_records,
    report,
    bench,
    write_performance,
    bench_lock,
    simulate,
):
    cli.add_command(command)


def run() -> NoReturn:
    """Run a command, and exit; an error is one line and an exit code. Raises KeyboardInterrupt."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        sys.exit(cli(prog_name="python -m loadtest", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ServerError, ReportsError, ReportError, SaleError, OSError) as error:  # OSError: as of a full disk
        sys.exit(f"Error: {error}")
    except click.Abort:
        raise KeyboardInterrupt from None
