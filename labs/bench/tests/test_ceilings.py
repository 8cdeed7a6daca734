"""Ceilings: the utilisation law, on figures that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs.bench.ceilings import Demands, demands, forecasts
from labs.bench.result import Case, Row
from labs.bench.tables import ceiling_tables
from labs.bench.tests.samples import benchmark, rush_of

ETCD = Demands("etcd", instance=1.5, shared={"etcd": 0.1, "Redis": 0.05, "the lock": 1.0}, cpu=2.4)


@pytest.mark.parametrize(
    ("instances", "ceiling", "on_one_machine"),
    [(1, 1000 / 1.5, 1000 / 1.5), (2, 1000.0, 1000 / 1.2), (1000, 1000.0, 1000 / 1.2)],
)
def test_the_busiest_server_is_the_ceiling(instances: int, ceiling: float, on_one_machine: float) -> None:
    """Instances divide their demand and shared servers do not; on one machine the CPUs are shared, too."""
    assert ETCD.ceiling(instances) == pytest.approx(ceiling)
    assert ETCD.ceiling_on_one_machine(instances, 2.0) == pytest.approx(on_one_machine)


def test_the_bottleneck_is_the_shared_server_with_the_largest_demand() -> None:
    """It is named with the number of instances from which on more of them do not help."""
    assert (ETCD.bottleneck, ETCD.enough_instances) == ("the lock", 2)
    fast = replace(ETCD, shared={"etcd": 0.0, "Redis": 0.1, "the lock": 0.0})
    assert (fast.bottleneck, fast.enough_instances) == ("Redis", 15)


def test_demands_are_those_of_the_measured_rush() -> None:
    """CPU time per click by server; the lock is held or handed over."""
    found = {each.guard: each for each in demands(benchmark())}["etcd"]
    assert found.instance == 1.0
    # 4 clicks in two sections of 3 ms each under one token; two keys for 4 clicks, a hand-over of 1.5 ms each
    assert found.shared == pytest.approx({"etcd": 0.25, "Redis": 0.25, "the lock": 1.5 + 0.75})
    assert found.cpu == 2.0


def test_measured_rows_are_held_to_the_ceiling() -> None:
    """But not those that gave the demands; another program had one of the two CPUs. The table counts the close ones."""
    made = benchmark()
    ceiling = {each.guard: each.ceiling_on_one_machine(2, 1.0) for each in demands(made)}["etcd"]
    made.rows = made.part("rush")
    for instances, share in ((1, 0.85), (4, 0.5)):
        case = Case("instances", "etcd", 4, 4, instances=instances)
        made.rows.append(Row.of(case, [rush_of(4 / ceiling / share)]))
    assert [(row.instances, row.close) for row in forecasts(made)] == [(1, True), (4, False)]
    _, table = ceiling_tables(made)
    assert table.about == "1 of 2 measured rows are within 20 % of the ceiling."
    assert [len(row) for row in table.rows] == [3]
