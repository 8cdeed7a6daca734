"""The scheduler's page without a server: it plays what was recorded, and offers nothing else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from app.guards import guards
from app.telemetry.guard_lines import GuardLines
from labs.steps.mistakes import mistakes
from labs.steps.schedules.explorer import A_PAUSE_OR_A_DEATH, Explorer
from labs.steps.schedules.files import recorded as came_with_the_repository
from labs.steps.schedules.recording import record
from labs.steps.schedules.results import WRONG as WRONG_WAYS
from labs.steps.schedules.results import Exploration, packed
from labs.steps.schedules.schedule import WORST_FIRST
from labs.steps.schedules.world import World
from labs.steps.stepped import COMMANDS
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[3]
FAULTS = {"freeze": "-pause", "kill": "-kill", "kill-sent": "-kill-sent"}
FLAWED = "labs.steps.tests.flawed_guards"  # not imported above: it would add them for the tests of other files as well
WRONG = "fence-at-the-write"
SENTENCES = {  # of the page, by the worst way in which an order ends
    "oversold": r"Sold t(wice|oo often):",
    "deadlock": "[AB] waits for ever: nobody is left to release the lock",
    "unsold": r"An item is lost: the counter says \d+",
    "told_wrong": "A buyer was told something that is not true",
}
FROZEN = ["A", "A", "A", "A", "B"]  # A is about to write, and B waits for its lock


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`etcd-unfenced` and the mistakes as they came; anew a wrong guard, and `redis-lua` by its commands."""
    folder = tmp_path_factory.mktemp("recordings")
    with patch.dict(guards()), World(tmp_path_factory.mktemp("w")) as world:
        guards().update(import_module(FLAWED).FLAWED)
        record(world, WRONG).write(folder)
        world.granularity = COMMANDS
        explorer = Explorer(world, guards()["redis-lua"], A_PAUSE_OR_A_DEATH)
        for _ in explorer.explore():
            pass
        found = Exploration("redis-lua", "exact", COMMANDS, 1, 2, "2030-01-01T00:00:00+00:00")
        found.graphs = [packed(explorer.graph, explorer.schedules)]
        found.source = GuardLines(guards()["redis-lua"].buy).source
        found.write(folder)
    paths = {name: folder / f"schedules-{name}.json" for name in ("redis-lua", WRONG)}
    paths |= {name: path for name, path in came_with_the_repository().items() if name in ("etcd-unfenced", *mistakes())}
    return {name: path.read_text() for name, path in paths.items()}


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The URL of a server that has files, and no more."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def site(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page with both recordings."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "app/board/static", folder / "static")
    shutil.copytree(ROOT / "labs/steps/static", folder / "steps/static")
    scripts = [
        f'<script type="application/json" id="recording-{name}">{text.replace("<", chr(92) + "u003c")}</script>'
        for name, text in files.items()
    ]
    page = (ROOT / "labs/steps/static/index.html").read_text()
    (folder / "index.html").write_text(page.replace("</head>", "".join(scripts) + "</head>"))
    with served(folder) as url:
        yield url


@pytest.fixture
def open_page(chromium: Browser, site: str) -> Iterator[Any]:
    """Opens the page; in the end the browser may not have complained, nor asked for anything but files."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(link: str = "", **options: Any) -> Page:
        page = chromium.new_page(locale="en", **options)
        pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("request", lambda sent: complaints.extend([sent.url] * (not is_file(sent.url))))
        page.goto(f"{site}/{link}")
        page.wait_for_selector("[data-do='step A']")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def is_file(url: str) -> bool:
    return bool(re.search(r"^http://127.0.0.1:\d+/(\?.*)?(#.*)?$|/static/", url))


def click(page: Page, button: str) -> None:
    """Press a purchase's button, such as "step A", and wait until the page shows what came of it."""
    page.click(f"[data-do='{button}']:not([aria-disabled=true])")
    page.wait_for_selector("#purchases[aria-busy=false]")


def steps(page: Page, buyers: list[str]) -> None:
    for buyer in buyers:
        click(page, f"step {buyer}")


def test_a_level_is_won_from_a_recording(open_page: Any) -> None:
    """A's lease is seen running out, then B buys, and A goes on as it did then; tokens begin with 1."""
    page = open_page()
    steps(page, FROZEN)
    page.wait_for_selector(".purchase:has-text('B is queued behind A, token 1')")
    click(page, "freeze A")
    page.wait_for_selector(
        ".purchase:has-text('A is frozen where it is about to write 0; its lease has'):has-text('s left')"
    )
    page.wait_for_selector(".purchase:has-text('its lease has ended')")
    steps(page, list("BBBBB"))
    page.click("[data-do='freeze A']:has-text('Thaw and step A')")
    click(page, "step A")
    page.wait_for_selector("#result[data-tone=good]:has-text('Sold twice: A and B both have the one item')")
    assert page.inner_text(".stage-figures div:nth-child(4) dd") == "2"


def test_a_wrong_guard_is_recorded_and_played_in_the_same_way(open_page: Any) -> None:
    """The late write of a frozen holder lands between the next one's read and its write; the page says what it did."""
    page = open_page(reduced_motion="reduce")
    page.click(f".levels button[value={WRONG}]")
    page.wait_for_selector(".code small:has-text('flawed_guards.py')")
    steps(page, FROZEN)
    click(page, "freeze A")
    steps(page, list("BBB"))
    page.wait_for_selector(".purchase:has-text('B is about to write 0')")
    page.click("[data-do='freeze A']:has-text('Thaw and step A')")
    click(page, "step B")
    page.wait_for_selector("#result[data-tone=good]:has-text('Sold twice: A and B both have the one item')")


def test_undo_is_one_step_back(open_page: Any) -> None:
    """By its button or its key, down to the beginning, where it cannot be pressed."""
    page = open_page(reduced_motion="reduce")
    steps(page, FROZEN)
    click(page, "freeze A")
    page.wait_for_selector(".purchase:has-text('its lease has ended')")  # at once, for a reader without motion
    page.keyboard.press("u")
    page.wait_for_selector(".purchase:has-text('B is queued behind A')")
    for _ in FROZEN:
        page.click("#undo:not([aria-disabled=true])")
        page.wait_for_selector("#purchases[aria-busy=false]")
    page.wait_for_selector("#undo[aria-disabled=true]")
    page.wait_for_selector(".purchase:has-text('A stands before the guard')")


def test_what_was_not_recorded_is_not_offered_and_the_page_says_why(open_page: Any) -> None:
    """A purchase that waits was not frozen; a live board's other choices are not there at all."""
    page = open_page()
    page.click("[data-do='freeze A'][aria-disabled=true]", force=True)
    page.wait_for_selector("#problem:has-text('Not recorded: a purchase is frozen where it stands inside')")
    assert [page.is_visible(f"#{name}") for name in ("add", "other", "grain", "token-label")] == [False] * 4
    assert page.is_hidden("[data-do='kill A']")
    page.wait_for_selector("#recorded:has-text('every move was made on real servers')")


def test_every_end_is_reached_by_the_moves_that_were_recorded_and_by_no_other(
    open_page: Any, files: dict[str, str]
) -> None:
    """At each state on the way to each end of `redis-lua`, the graph's moves can be pressed, deaths included."""
    page = open_page(reduced_motion="reduce")
    page.click("#levels button[value=redis-lua]")
    (graph,) = json.loads(files["redis-lua"])["graphs"]
    for moves, *_ in graph["ends"].values():
        page.click("#begin")
        state = 0
        for move in [*moves, None]:
            page.wait_for_selector("#purchases[aria-busy=false] [data-do='step B']")
            offered = page.evaluate(
                "[...document.querySelectorAll('#purchases button')].filter(({ ariaDisabled, hidden }) => !hidden &&"
                " ariaDisabled !== 'true').map(({ dataset }) => [dataset.move, dataset.do.at(-1)])"
            )
            names = {buyer + FAULTS.get(name, ""): name for name, buyer in offered}
            assert sorted(names) == sorted(graph["moves"][state]), (moves, state)
            if move:
                click(page, f"{'freeze' if names[move] == 'thaw' else names[move]} {move[0]}")
                state = graph["moves"][state][move]


def test_a_schedule_in_the_address_is_played_with_its_death(open_page: Any) -> None:
    """The next move is a button of the page also where only a recording can make it; undo goes back in it."""
    page = open_page("#guard=redis-lua&grain=commands&schedule=A.A-kill-sent.B.B.B")
    page.click("#next-move:enabled")
    page.click("#next-move:enabled:has-text('kill A behind its command')")
    page.wait_for_selector(".purchase:has-text('A was killed')")
    page.click("#undo")
    page.wait_for_selector(".purchase:has-text('A is about to send')")
    page.click("#next-move:enabled:has-text('kill A behind its command')")
    page.click("#next-move:enabled:has-text('step B')")
    page.wait_for_selector(".purchase:has-text('B is about to send')")


@pytest.mark.parametrize("guard", [name for name in came_with_the_repository() if name in mistakes()])
def test_the_printed_order_of_each_mistake_ends_as_it_says(open_page: Any, files: dict[str, str], guard: str) -> None:
    """Pressed move by move, the shortest order that breaks it shows the worst that the command tells of it."""
    file = json.loads(files[guard])
    (count,), (graph,) = file["counts"], file["graphs"]
    page, state = open_page(f"#guard={guard}&grain=commands&schedule={count['shortest']}", reduced_motion="reduce"), 0
    for move in count["shortest"].split("."):
        page.click("#next-move:enabled")
        state = graph["moves"][state][move]
    page.wait_for_selector("#next-move:has-text('The schedule is over.')")
    numbers = dict(zip(WRONG_WAYS, graph["ends"][str(state)][2], strict=True))
    way = next(way for way in WORST_FIRST if numbers[way])
    assert re.match(f"Aim reached. {SENTENCES[way]}", page.inner_text("#result[data-tone=good]"))
