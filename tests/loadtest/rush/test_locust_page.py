"""Locust's page: the tab with the verdicts, and the ways to the board and the report."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from app.contract.keys import queue_name
from app.guards import guards
from loadtest.results.record import Record
from loadtest.rush.conductor import DEFAULT_GUARDS
from loadtest.shop_client.shops import in_progress
from loadtest.stack.stack import Stack
from loadtest.terminal import TITLES
from lock import Mutex, Session, connect
from tests.support.parsed import Page as Parsed
from tests.support.rushing import Page, assert_one_burst, environment, locust_page
from tests.support.serving import answering
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)  # the patience of its waits comes before

BUYERS = 40
TOKEN = "s3cret"
LOCK = queue_name("demo")  # while a test holds it, every buyer of an etcd guard waits
BOARD = 'http://board/"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locust") / "printed"


@pytest.fixture(scope="module")
def locust(running_stack: Stack, printed: Path) -> Iterator[Page]:
    """One Locust with its page and two workers for all tests that start rushes one after the other."""
    settings = {"FLASHSALE_BOARD_URL": BOARD, "FLASHSALE_ADMIN_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    env = environment(running_stack, FLASHSALE_SECTION_LOG=str(running_stack.section_log), **settings)
    with printed.open("w") as output, locust_page(env, output=output, workers=2) as running:
        yield running


@pytest.fixture
def shown(stack: Stack, locust: Page) -> Page:
    """That page, on a stack in order, and idle."""
    wait_until(locust.is_idle, timeout=60)
    return locust


def verdicts(shown: Page) -> list[dict[str, str]]:
    """The rows of the tab, by the titles of its columns, as Locust's page gets them."""
    (table,) = shown.arguments()["extended_tables"]
    (rows,) = json.loads(shown.get("/stats/requests"))["extended_stats"]
    assert table["key"] == rows["key"] == "verdict"
    titles = {column["key"]: column["title"] for column in table["structure"]}
    return [{titles[key]: cell for key, cell in row.items()} for row in rows["data"]]


def refused(shown: Page, path: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as raised:
        shown.get(path)
    with raised.value as error:
        return error.code, error.read().decode()


def links(html: str) -> list[str]:
    return [attributes["href"] or "" for tag, attributes in Parsed(html).tags if tag == "a"]


def test_the_page_recovers_from_stop_and_from_nonsense(shown: Page, stack: Stack, printed: Path) -> None:
    """Stop ends a rush with one line; the next one waits for its purchases, also after a guard that does not exist."""
    before = stops(printed)
    shown.start(guards=["etcd"], stock=BUYERS, buyers=BUYERS, hold_ms=100)
    wait_until(lambda: sum(map(in_progress, stack.urls)) > BUYERS // 2, timeout=60)
    shown.stop()
    shown.start(guards=["redis-watch"], stock=11, buyers=BUYERS)
    wait_until(lambda: "purchases under way" in shown.get("/stats/requests"), timeout=60)
    wait_until(lambda: shown.is_complete(["redis-watch"], 11), timeout=100)
    (run,) = shown.comparison()["runs"]
    assert (run["verdict"], run["orders"]) == ("EXACT", 11)
    wait_until(shown.is_idle, timeout=60)
    shown.start(guards=["redis-lua", "etcd"], stock=9, buyers=BUYERS, hold_ms=500)
    wait_until(lambda: shown.is_complete(["redis-lua"], 9), timeout=60)
    shown.stop()
    assert len(shown.comparison()["runs"]) == 1
    shown.start(guards=["hope"], stock=8, buyers=BUYERS)
    wait_until(lambda: "has no guard hope" in "".join(row["verdict"] for row in verdicts(shown)), timeout=60)
    wait_until(shown.is_idle, timeout=60)
    runs = shown.compare(guards=["redis-lua"], stock=7, buyers=BUYERS)
    assert_one_burst(runs["redis-lua"]["by_instance"], BUYERS)
    (row,) = verdicts(shown)  # the reason of the rush before is taken away
    assert {*row} == {*TITLES}
    assert [row[name] for name in ("guard", "sold", "verdict", "promise")] == ["redis-lua", "7", "EXACT", "kept"]
    assert stops(printed) - before == 1


def stops(printed: Path) -> int:
    """How often the screen has said that a rush was stopped."""
    return printed.read_text(encoding="utf-8").splitlines().count("Stopped before the first verdict.")


class Attacker:
    """Keeps the paths that it is asked for, each with the token; answers everything as a shop with one guard would."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str | None]] = []

    def __call__(self, request: BaseHTTPRequestHandler, _: bytes) -> object:
        self.asked.append((request.path, request.headers["Authorization"]))
        guards = {"guards": [{"name": "none", "promise": "none"}]}
        return b"flashsale_purchases_in_progress 0.0\n" if request.path == "/metrics" else guards


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    with answering(attacker := Attacker()) as attacker.url:
        yield attacker


def test_other_sites_cannot_use_the_page(shown: Page, attacker: Attacker) -> None:
    """No route answers a page of another site or an unknown host name, and no rush is started."""
    foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    form = f"user_count=1&spawn_rate=1&guards=none&host={attacker.url}".encode()
    for headers, path, data in (
        (foreign, "/swarm", form),
        (foreign, "/stop", None),
        ({"Host": "evil.example"}, "/comparison.json", None),
        ({"Host": "evil.example"}, "/stats/requests", None),
        ({"Host": "evil.example"}, "/", None),
    ):
        request = urllib.request.Request(shown.url + path, data, headers)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=30)
    assert shown.is_idle()
    assert attacker.asked == []


def test_a_host_typed_into_the_form_never_learns_the_admin_token(shown: Page, attacker: Attacker) -> None:
    """Otherwise a page of another site could have it sent there."""
    page = Page(shown.port, attacker.url)
    page.start(guards=["none"], stock=5, buyers=1)
    wait_until(lambda: "/stock/reset" in dict(attacker.asked), timeout=60)
    page.stop()
    assert [path for path, token in attacker.asked if token] == []


def test_the_report_has_its_records_and_waits_for_the_end(shown: Page, stack: Stack, tmp_path: Path) -> None:
    """While buyers buy nothing is drawn; afterwards it is the page of make demo, with the files it links to."""
    assert links(shown.get("/")) == [BOARD, "./report/"]
    offered = shown.arguments()["extra_options"]["guards"]
    assert (offered["choices"], offered["default_value"]) == (list(guards()), DEFAULT_GUARDS)
    assert shown.arguments("zh-CN,zh;q=0.9,en;q=0.8")["extended_tabs"] == [{"key": "verdict", "title": "判定"}]
    with connect(stack.etcd.endpoint) as client, Session(client, ttl=10) as session, Mutex(session, LOCK).acquire():
        shown.start(guards=["redis-lua", "etcd"], stock=16, buyers=BUYERS, hold_ms=20)
        wait_until(lambda: shown.is_complete(["redis-lua"], 16), timeout=60)
        assert refused(shown, "/report/")[0] == 503
    wait_until(shown.is_idle, timeout=100)
    assert '<html lang="zh">' in shown.get("/report/", "zh-TW")
    report = Parsed(shown.get("/report/"))
    assert report.text("h1") == "Every promise was kept."
    assert len(report.charts) == 5
    for link in (each for each in links(shown.get("/report/")) if not each.startswith("#")):
        assert json.loads(shown.get(f"/report/{link}"))
    (tmp_path / "etcd.json").write_text(shown.get("/report/records/etcd.json"), encoding="utf-8")
    assert Record.read(tmp_path / "etcd.json").hold_ms == 20
    assert refused(shown, "/report/records/hope.json")[0] == 404
