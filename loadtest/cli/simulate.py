"""`simulate`: a rush foreseen, from a kept run of the benchmark."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import click

from loadtest.bench.result import BenchResult
from loadtest.bench.tables import filled
from loadtest.cli.bench import draw, wide_console
from loadtest.cli.options import NumberRange
from loadtest.report.charts.scaling import picture
from loadtest.simulate.costs import Costs
from loadtest.simulate.guards import GUARDS
from loadtest.simulate.prediction import Prediction, apart, ceilings, foreseen, steps
from loadtest.simulate.rush import Setting

# What oversells need not be fast; `etcd-unfenced` is as fast as `etcd`; buyers who poll make too many steps.
_LEFT_OUT = ("none", "thread", "etcd-unfenced", "redis-lock", "redis-watch")
_AHEAD_S = 60.0
_GUARD_HELP = "Repeatable; default: all that are exact and do not poll."


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--buyers", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--stock", type=click.IntRange(0), default=10_000, show_default=True)
@click.option("--instances", multiple=True, type=click.IntRange(1), default=(10, 100, 1000), show_default=True)
@click.option("--guard", "guards", multiple=True, type=click.Choice(tuple(GUARDS)), help=_GUARD_HELP)
@click.option("--rtt-ms", type=NumberRange(0), default=0.5, show_default=True, help="Of the network in between.")
@click.option("--document", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Fill its tables.")
@click.option("--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the last table as SVG.")
def simulate(
    results: tuple[Path, ...],
    buyers: int,
    stock: int,
    instances: tuple[int, ...],
    guards: tuple[str, ...],
    rtt_ms: float,
    document: Path | None,
    chart: Path | None,
) -> None:
    """Foresee rushes from measured costs.

    `bench --part scale` measures them. First the rushes that were measured; then one with a machine for
    each instance, for etcd and for Redis.
    """
    console = wide_console()
    result = BenchResult.read(*results)
    costs = Costs.of(result)
    asked = guards or [guard for guard in costs.told if guard not in _LEFT_OUT]
    if unknown := set(asked) - costs.told.keys():
        raise click.ClickException(f"the clicks under {min(unknown)!r} were not measured")
    settings = [Setting(guard, buyers, stock, n, True, rtt_ms / 1000, _AHEAD_S) for guard in asked for n in instances]
    with console.status("foreseeing"), ProcessPoolExecutor() as pool:
        made = list(pool.map(partial(Prediction.of, costs), settings))
    grids = [steps(costs), ceilings(costs), foreseen(costs, result), apart(made)]
    for grid in grids:
        console.print(draw(grid))
    if document:
        document.write_text(filled(document.read_text(encoding="utf-8"), result, grids), encoding="utf-8")
    if chart and (drawn := picture(made)):
        chart.write_text(drawn, encoding="utf-8")
