"""The pages from a disk, without a network: what they show happened, and they send nothing."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from labs.site.recordings import graph_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

Open = Callable[..., "Page"]
MB = 1_000_000
ROOT = Path(__file__).parents[3]
CARDS = ["watch", "scheduler", "holder", "schedules", "mistakes", "libraries"]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_each_page_opens_from_a_disk(open_page: Open, site: Path, width: int, language: str) -> None:
    """On a phone and on a projector, in both languages, light and dark; none is wider than the window."""
    scheme = "dark" if width == 1024 else "light"
    page = open_page("about:blank", locale=language, color_scheme=scheme, viewport={"width": width, "height": 720})
    for name in ["index", *CARDS]:
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_selector("#cards" if name == "index" else "header a[href^='index.html']")
        assert page.evaluate("document.documentElement.lang") == language
        assert page.evaluate("document.documentElement.scrollWidth") == width, name


def test_the_first_page_leads_to_each_other_page(open_page: Open, site: Path) -> None:
    """From a server, below any path: by a card, which keeps the language, and back."""
    with serving(site.parents[1]) as url:
        page = open_page(f"{url}/below/site/index.html", locale="zh")
        links = page.eval_on_selector_all("#cards a", "links => links.map(({ href }) => href)")
        assert links == [f"{url}/below/site/{name}.html?lang=zh" for name in CARDS]
        for link in links:
            page.goto(link)
            page.click("header a[href^='index.html']")
            page.wait_for_selector("#cards")


def test_a_rush_plays_and_explains_itself(open_page: Open, site: Path) -> None:
    """It ends with the verdict of its record; the next one is under a lock; slow motion has its moves."""
    record = json.loads((ROOT / "tests/data/rush-none.json").read_text(encoding="utf-8"))
    page = open_page((site / "watch.html").as_uri())
    page.wait_for_selector("#play:text-is('Pause')")
    page.wait_for_selector(".story, #next:visible")
    page.keyboard.press("Escape")
    assert page.inner_text("#word") == f"OVERSOLD by {record['verdict']['oversold']}"
    page.click("#slow-motion")
    page.wait_for_selector(".slow-dialog .sentence")
    page.keyboard.press("Escape")
    page.click("#next")
    page.wait_for_selector("#runs tr.current[data-key=etcd]")
    page.focus("#scrub")
    page.keyboard.press("End")
    page.wait_for_selector("#word:text-is('EXACT')")
    assert page.locator("#runs tr").count() == 2


def test_nothing_moves_for_who_asks_for_that(open_page: Open, site: Path) -> None:
    """With reduced motion, the end of a rush is there at once."""
    page = open_page((site / "watch.html").as_uri(), reduced_motion="reduce")
    page.wait_for_selector("#play:text-is('Play')")
    assert page.inner_text("#word").startswith("OVERSOLD by ")
    page.goto((site / "index.html").as_uri())
    page.wait_for_selector("#pause:text-is('Play')")


def test_the_holder_pauses_and_wakes_up(open_page: Open, site: Path) -> None:
    """It waits for the reader before the holder wakes up; then two guards have sold twice, and one has not."""
    page = open_page((site / "holder.html").as_uri())
    page.click("#next:visible")
    page.wait_for_selector("#columns [data-guard=etcd] .word")
    guards = ("etcd-unfenced", "etcd-checked", "etcd")
    words = [page.inner_text(f"[data-guard={guard}] .word") for guard in guards]
    assert words == ["OVERSOLD by 1", "OVERSOLD by 1", "EXACT"]
    page.click("[data-scene=pause]:enabled")
    page.wait_for_selector("#next:visible")
    page.click("#stop")
    page.wait_for_selector("[data-scene=pause]:enabled")


def test_levels_are_won_by_clicks(open_page: Open, site: Path, recordings: Path) -> None:
    """Those of the scheduler and of the mistakes; a link of the schedules leads to the page of its guard."""
    win_all(open_page((site / "scheduler.html").as_uri()), recordings)
    win_all(open_page((site / "mistakes.html").as_uri()), recordings)
    page = open_page((site / "schedules.html").as_uri())
    for guard, file in (("none", "scheduler.html"), ("ask-then-decrease", "mistakes.html")):
        page.click(f"#guards button[value={guard}]")
        page.wait_for_selector(f"#steps[href*='guard={guard}']")
        assert str(page.get_attribute("#steps", "href")).startswith(f"{file}?lang=en#guard={guard}&")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_whole_site_is_made(open_page: Open, tmp_path: Path) -> None:
    """Each page is below 1 MB, all are below 6 MB, and every level is won."""
    words = ["--output", str(tmp_path / "site"), "--recordings", str(tmp_path / "recordings")]
    subprocess.run([sys.executable, "-m", "loadtest", "site", *words], cwd=ROOT, check=True)
    sizes = {path.stem: path.stat().st_size for path in (tmp_path / "site").glob("*.html")}
    assert {*sizes} == {"index", *CARDS}
    assert max(sizes.values()) < MB
    assert sum(sizes.values()) < 6 * MB
    for name in ("scheduler", "mistakes"):
        win_all(open_page((tmp_path / f"site/{name}.html").as_uri()), tmp_path / "recordings")
    assert (tmp_path / "site/docs/index.html").exists()


class QuietHandler(SimpleHTTPRequestHandler):
    """A static server that writes no log."""

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A static server of this folder; its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def win_all(page: Page, recordings: Path) -> None:
    """Win each level of the page by clicks."""
    levels = page.eval_on_selector_all(".levels li button", "all => all.map(({ value }) => value)")
    assert levels
    for guard in levels:
        recording = json.loads((recordings / graph_of(guard)).read_text(encoding="utf-8"))
        page.click(f".levels button[value={guard}]")
        page.wait_for_selector("[data-do='step A']:not([aria-disabled=true])")
        for move in way_out(recording):
            buyer, _, fault = move.partition("-")
            does = {"": "step", "pause": "freeze"}.get(fault, fault)
            button = f"[data-do='{does} {buyer}']"
            if not fault and page.get_attribute(f".purchase:has({button})", "data-frozen") == "true":
                button = f"[data-do='freeze {buyer}']"
            page.click(f"#purchases:not([aria-busy=true]) {button}:not([aria-disabled=true])")
        page.wait_for_selector(f".levels button[value={guard}][data-solved=true]")


def way_out(recording: dict[str, Any]) -> list[str]:
    """The shortest way to the end that is the aim: a wrong one; under a guard that has none, a refused write or any."""
    (graph,) = recording["graphs"]
    columns = recording["purchase"]

    def rank(end: str) -> int:
        rows = [dict(zip(columns, graph["rows"][place], strict=True)) for place in graph["states"][int(end)][:-4]]
        return 2 * any(graph["ends"][end][2]) + any("fenced off" in str(row["detail"]) for row in rows)

    best = max(map(rank, graph["ends"]))
    ways: dict[int, list[str]] = {0: []}
    queue = deque([0])
    while str(state := queue.popleft()) not in graph["ends"] or rank(str(state)) < best:
        new = {to: [*ways[state], move] for move, to in graph["moves"][state].items() if to not in ways}
        ways |= new
        queue.extend(new)
    return ways[state]
