"""The command: python -m loadtest COMMAND."""

from __future__ import annotations

import sys

import click

from loadtest.audit_command import audit_records
from loadtest.bench.command import bench, write_performance
from loadtest.bench.lock import bench_lock
from loadtest.bench.viewers import bench_viewers
from loadtest.compare import compare
from loadtest.demo import demo
from loadtest.faults.command import faults
from loadtest.process import ServerError
from loadtest.report.command import report
from loadtest.up import up


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the flash sale on this machine, without Docker."""


for command in (demo, up, compare, faults, audit_records, report, bench, write_performance, bench_lock, bench_viewers):
    cli.add_command(command)


def main() -> None:
    """Run a command; a server that cannot be brought up is one line and exit code 1."""
    try:
        cli(prog_name="python -m loadtest")
    except ServerError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
