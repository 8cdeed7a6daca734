"""The scenarios of this lab, as the command plays them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.commands import finished

pytest.importorskip("labs.faults", reason="its lab was deleted")

from labs.faults.scenarios import scenarios
from labs.shards.scenarios import SHARDED


def test_all_of_them_are_found_and_made_for_the_guard_with_shards() -> None:
    """Whichever guard is asked for; scenarios whose buyer thinks inside a lock leave this guard out."""
    made = [name for name, each in scenarios().items() if SHARDED in each.only]
    assert made == [
        *("transfer-kill", "transfer-pause"),
        *("failover-kill", "failover-late", "failover-wait", "failover-lossy", "random-shards"),
    ]
    assert all(list(scenarios()[name].suitable(["etcd"])) == [SHARDED] for name in made)
    assert list(scenarios()["kill-holder"].suitable(["etcd", SHARDED])) == ["etcd"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("words", "exact", "broken"),
    [
        (["transfer"], 2, ""),
        (["failover"], 3, r"\d+ acknowledged but missing"),
        (["random-shards", "--seconds=20"], 1, ""),
        (["random-opening", "--seconds=20", f"--guard={SHARDED}"], 1, ""),
        (["opening", f"--guard={SHARDED}"], 4, r"OVERSOLD by \d+"),
        (["restart-redis", f"--guard={SHARDED}"], 1, ""),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_it_is_exact_but_where_it_has_to_break(tmp_path: Path, words: list[str], exact: int, broken: str) -> None:
    """Movers and masters that fail, leaders of an opening: only Redis as it is set up by default loses orders."""
    done = finished(tmp_path, "faults", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": EXACT, as expected") == exact
    assert not broken or re.search(rf": .*{broken}.*, as expected", done.stdout)
