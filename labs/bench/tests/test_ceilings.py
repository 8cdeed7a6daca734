"""Ceilings: the utilisation law, on figures that can be worked out by hand."""

from __future__ import annotations

import pytest

from labs.bench.ceilings import Demands, demands
from labs.bench.tests.samples import benchmark

ETCD = Demands("etcd", instance=1.5, shared={"etcd": 0.1, "Redis": 0.05, "the lock": 1.0}, cpu=2.4)


@pytest.mark.parametrize(
    ("instances", "ceiling", "on_one_machine"),
    [(1, 1000 / 1.5, 1000 / 1.5), (2, 1000.0, 1000 / 1.2), (1000, 1000.0, 1000 / 1.2)],
)
def test_the_busiest_server_is_the_ceiling(instances: int, ceiling: float, on_one_machine: float) -> None:
    """Instances divide their demand and shared servers do not; on one machine the CPUs are shared, too.

    The shared server with the largest demand is named, with the number of instances beyond which more do not help.
    """
    assert ETCD.ceiling(instances) == pytest.approx(ceiling)
    assert ETCD.ceiling_on_one_machine(instances, 2.0) == pytest.approx(on_one_machine)
    assert (ETCD.bottleneck, ETCD.enough_instances) == ("the lock", 2)


def test_demands_are_those_of_the_measured_rush() -> None:
    """CPU time per click by server; the lock is held or handed over."""
    found = {each.guard: each for each in demands(benchmark())}["etcd"]
    assert found.instance == 1.0
    # 4 clicks in two sections of 3 ms each under one token; two keys for 4 clicks, a hand-over of 1.5 ms each
    assert found.shared == pytest.approx({"etcd": 0.25, "Redis": 0.25, "the lock": 1.5 + 0.75})
    assert found.cpu == 2.0
