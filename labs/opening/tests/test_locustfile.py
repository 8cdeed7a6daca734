"""The rush at a scheduled opening, run as a user does."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.stack.stack import Stack
from tests.support.rushing import REPOSITORY, Finished, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

BUYERS, STOCK = 60, 20
OPTIONS = ("--locustfile", str(REPOSITORY / "labs/opening/locustfile.py"), "--users", str(BUYERS), "--guards", "etcd")


def test_a_scheduled_sale_is_sold_when_it_opens(stack: Stack, tmp_path: Path) -> None:
    """Buyers click early, too early and on time: all learn when it opens, and the sale is exact."""
    rush = Finished(environment(stack), tmp_path, *OPTIONS, "--stock", str(STOCK), "--opens-in=3")
    (run,) = rush.runs().values()
    assert (run.verdict, run.outcomes["sold"], run.outcomes["sold_out"]) == ("EXACT", STOCK, BUYERS - STOCK)
    early, failures = rush.requests()["etcd", "not_open"]
    assert early >= BUYERS // 3
    assert failures <= early - BUYERS // 3, "an early click is told the truth; a click on time may find it opening"
