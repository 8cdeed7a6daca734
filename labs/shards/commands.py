"""`shards`: the demo on a Redis Cluster, under the guard with shards and without one."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from labs.shards.local_cluster import use_cluster
from loadtest.cli.compare import rush_options
from loadtest.cli.demo import run_demo

GUARDS = ("redis-lua", "etcd-sharded")


@click.command("shards")
@rush_options
@click.option("--redis-shards", default=3, type=click.IntRange(1, 9), show_default=True, help="1: no cluster.")
@click.option("--keep", is_flag=True, help="Then keep it all running, with board and Locust, until Ctrl-C.")
def shards(redis_shards: int, **options: Any) -> None:
    """Run the demo on several masters of a Redis Cluster, with a guard whose stock lies on all of them."""
    run_demo(partial(use_cluster, masters=redis_shards), **options)


next(option for option in shards.params if option.name == "guards").default = GUARDS
