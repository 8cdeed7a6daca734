"""The measurement of what viewers cost the sale."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from loadtest.bench import viewers
from loadtest.bench.result import Case
from loadtest.bench.viewers import Pair, measure
from loadtest.cli.main import cli


@pytest.mark.slow  # a whole stack, and a process that has to import it all
def test_viewers_watch_while_the_sale_is_measured() -> None:
    """Each pair has a rush alone and one with all viewers connected, to its end."""
    pairs = list(measure(2, 10, Case("viewers", "etcd", buyers=60, stock=40)))
    assert len(pairs) == 2
    assert all(pair.alone_s > 0 and pair.watched_s > 0 for pair in pairs)


@pytest.mark.parametrize(("slower", "code"), [(1.0, 0), (1.09, 0), (1.2, 1)])
def test_the_median_decides(monkeypatch: pytest.MonkeyPatch, slower: float, code: int) -> None:
    """One slow pair does not matter, and a median above 1.1 fails."""
    pairs = [Pair(2.0, 2.0 * ratio) for ratio in (slower, 9.0, slower, 0.5, slower)]
    monkeypatch.setattr(viewers, "measure", lambda *args: iter(pairs))
    done = CliRunner().invoke(cli, ["bench-viewers"])
    assert done.exit_code == code
    assert f"{slower:.3f} times as long (median of 5 pairs)" in done.output
