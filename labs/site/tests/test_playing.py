"""All that was recorded can be played: by keyboard and mouse, from a disk and from a server, and as it happened."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.guards import guards as known_guards
from labs.site.tests.playing import ROBOT, levels_of, recorded, way_to, win_all
from tests.support.browser_fixtures import Open

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

MB = 1_000_000
ROOT = Path(__file__).parents[3]
SAMPLE = 50


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_whole_site_is_made(open_page: Open, tmp_path: Path) -> None:
    """By `make site`: each page is below 1 MB, all are below 6 MB, and what was recorded anew can be played."""
    made, recordings = tmp_path / "site", tmp_path / "recordings"
    words = ["--output", str(made), "--recordings", str(recordings)]
    subprocess.run([sys.executable, "-m", "loadtest", "site", *words], cwd=ROOT, check=True)
    sizes = {path.stem: path.stat().st_size for path in made.glob("*.html")}
    assert {*sizes} == {"index", "watch", "scheduler", "holder", "schedules", "mistakes", "libraries"}
    assert max(sizes.values()) < MB
    assert sum(sizes.values()) < 6 * MB
    assert (made / "docs/index.html").exists()
    for name in ("scheduler", "mistakes"):
        win_all(open_page((made / f"{name}.html").as_uri()), recordings)


@pytest.mark.parametrize("name", ["scheduler", "mistakes"])
def test_every_level_is_won_by_keyboard(open_page: Open, recordings: Path, served: str, name: str) -> None:
    """From a server, in Chinese, on a small screen; the robot comes with a mouse, from a disk."""
    page = open_page(f"{served}/{name}.html", viewport={"width": 390, "height": 800}, locale="zh", color_scheme="dark")
    win_all(page, recordings)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("name", ["scheduler", "mistakes"])
def test_a_robot_finds_each_state_as_it_was_recorded(open_page: Open, site: Path, recordings: Path, name: str) -> None:
    """By clicks it comes to every state of every graph, whose moves, figures and lines are those of the recording."""
    page = open_page((site / f"{name}.html").as_uri(), reduced_motion="reduce")
    for guard in levels_of(page):
        recording = recorded(recordings, guard)
        page.click(f".levels button[value={guard}]")
        page.wait_for_selector(f".levels button[value={guard}][aria-current=true]")
        seen, wrong = page.evaluate(ROBOT, recording)
        assert wrong == [], guard
        assert seen == len(recording["graphs"][0]["states"]), guard


def test_what_is_shown_happens_again(recordings: Path, tmp_path: Path) -> None:
    """The moves to 50 of the states, made once more on real servers, lead to what the recording shows there."""
    from app.telemetry.guard_lines import GuardLines
    from labs.steps.guard_files import GuardFile
    from labs.steps.mistakes import mistakes
    from labs.steps.schedules.explorer import Explorer, Task
    from labs.steps.schedules.schedule import moves_of
    from labs.steps.schedules.world import World

    guards = sorted(path.stem.removeprefix("schedules-") for path in recordings.glob("graphs/*.json"))
    kept = {guard: recorded(recordings, guard) for guard in guards}
    states = [(guard, each) for guard in guards for each in range(1, len(kept[guard]["graphs"][0]["states"]))]
    with World(tmp_path) as world:
        for guard, state in sorted(random.Random(61).sample(states, SAMPLE)):
            recording = kept[guard]
            (graph,) = recording["graphs"]
            kind, sale = (mistakes() | known_guards())[guard], {name: recording[name] for name in ("items", "buyers")}
            path = ".".join(way_to(graph, state.__eq__))
            task = Task(GuardFile.of(kind), granularity=recording["grain"], **sale)
            Explorer(world, task).replay(moves_of(path))
            source, shown = GuardLines(kind.buy).source, world.shown()
            assert source.text == recording["source"]["text"], f"{guard} was changed since: make recorded"
            then = graph["states"][state]
            rows = [graph["rows"][place] for place in then[:-4]]
            columns, first = recording["purchase"], recording["source"]["first_line"]
            assert told(columns, shown.purchases, source.first_line) == told(columns, rows, first), (guard, path)
            servers = [shown.stock, shown.orders, shown.fence, [list(each) for each in shown.queue]]
            assert servers == then[-4:], (guard, path)


def told(columns: Sequence[str], rows: Iterable[Sequence[Any]], first_line: int) -> list[dict[str, Any]]:
    """Purchases by their columns, with lines that are counted within the guard's `buy`."""
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    return [each | {"line": each["line"] and each["line"] - first_line} for each in found]
