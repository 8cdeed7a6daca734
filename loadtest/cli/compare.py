"""`compare`: the rush under several guards, on a stack that runs already."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from loadtest.cli.locust_process import NoComparison, run_rush
from loadtest.cli.options import language
from loadtest.report.build import make_report
from loadtest.results.comparison import DEMO_GUARDS
from loadtest.results.folders import report_under_way
from loadtest.shop_client.shops import SaleError, Shops, hosts_of
from loadtest.terminal import console

F = TypeVar("F", bound=Callable[..., Any])


def rush_options(command: F) -> F:
    """The options of every command that runs a comparison."""
    for option in (
        language,
        click.option("--hold-ms", default=0, type=click.IntRange(0, 60000), show_default=True, help="Think time, ms."),
        click.option("--stock", default=300, type=click.IntRange(0), show_default=True, help="Items for sale."),
        click.option("--buyers", default=500, type=click.IntRange(1), show_default=True, help="Each clicks once."),
        click.option("--all", "every", is_flag=True, help="Under every guard of the shop."),
        click.option("--guard", "guards", multiple=True, default=DEMO_GUARDS, show_default=True, help="Repeatable."),
    ):
        command = option(command)
    return command


def guards_to_compare(hosts: Sequence[str], guards: Sequence[str], every: bool) -> list[str]:
    """The guards that the options ask for, or `every` one of the shop; raises NoComparison if it has not all."""
    try:
        shops = Shops(hosts)
        return list(shops.promises() if every else shops.require_guards(guards))
    except SaleError as error:
        raise NoComparison(str(error)) from None


@click.command()
@rush_options
@click.option("--hosts", default="http://127.0.0.1:8080,http://127.0.0.1:8090", show_default=True)
def compare(hosts: str, guards: Sequence[str], every: bool, language: str, **options: Any) -> None:
    """Run the rush against a stack that runs already.

    Exits with 0 if every guard kept its promise, with 1 if one did not, and with 2 if there is no verdict.
    FLASHSALE_REDIS_URL says where the ledger is.
    """
    try:
        addresses = hosts_of(hosts)
    except SaleError as error:
        raise NoComparison(str(error)) from None
    with report_under_way() as report:
        guards = guards_to_compare(addresses, guards, every)
        comparison = run_rush(report, hosts=addresses, env={}, guards=guards, language=language, **options)
        make_report(report, console(), language)
    sys.exit(comparison.exit_code)
