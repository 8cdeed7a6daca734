"""The board over HTTP: what can be done, what is answered if it cannot, what is served, and what labs add."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from flask.testing import FlaskClient
from pydantic import SecretStr

from app.board import create_board
from app.board.settings import BoardSettings
from app.board.sources import locust as locust_page
from app.sales.sale import Sale
from tests.support.serving import answering

WAIT_S = 20.0  # far more than anything here takes


def test_a_reset_needs_no_instance(board: FlaskClient, sale: Sale) -> None:
    """The sale is reset although no instance answers, to a stock or that of the settings; a bad stock is a 400."""
    answer = board.post("/control/reset", json={"stock": 7})
    assert answer.get_json()["done"] == "The sale begins again with a stock of 7."
    bodies: list[Any] = [{"stock": -1}, {"stock": "abc"}, {"stock": 10**9}, {"stok": 1}, [1]]
    for body in bodies:
        answer = board.post("/control/reset", json=body)
        assert (answer.status_code, answer.content_type) == (400, "application/problem+json"), body
    assert sale.snapshot().initial == 7
    board.post("/control/reset", json={})
    assert sale.snapshot().initial == 10


@dataclass
class LocustPage:
    """Answers as Locust's page does; `forms` are what it was sent."""

    state: str = "ready"
    success: bool = True
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    is_free: threading.Event = field(default_factory=threading.Event)  # until then it does not answer, if it is slow

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        if request.command == "GET":
            assert self.state != "slow" or self.is_free.wait(WAIT_S)
            return {"state": self.state}
        self.forms.append({"path": [request.path], **parse_qs(body.decode())})
        return {"success": self.success, "message": "No runner"}


@pytest.fixture
def locust() -> LocustPage:
    return LocustPage()


@pytest.fixture
def with_locust(board_settings: BoardSettings, locust: LocustPage) -> Iterator[FlaskClient]:
    with answering(locust) as url:
        yield create_board(board_settings.model_copy(update={"locust": url})).test_client()


RUSH = {"guard": "none", "buyers": 500, "stock": 300, "hold_ms": 20}


def test_one_rush_at_a_time(
    with_locust: FlaskClient, locust: LocustPage, sale: Sale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While buyers are under way, or Locust is too busy to answer, no others are sent, and the sale is not reset."""
    assert with_locust.post("/control/reset", json={"stock": 8}).status_code == 200
    for state in ("spawning", "running", "stopping", "cleanup", "slow"):
        locust.state = state
        monkeypatch.setattr(locust_page, "TIMEOUT", 0.1 if state == "slow" else 5.0)
        for answer in (
            with_locust.post("/control/rush", json=RUSH),
            with_locust.post("/control/reset", json={"stock": 7}),
        ):
            assert answer.status_code == 409
            assert "A rush is running already" in answer.get_json()["detail"]
    locust.is_free.set()
    assert (locust.forms, sale.snapshot().initial) == ([], 8)


def test_a_rush_that_does_not_start_says_why(board: FlaskClient, with_locust: FlaskClient, locust: LocustPage) -> None:
    """Locust is not sent what makes no sense, may refuse the rest, and has to run."""
    changes: list[dict[str, Any]] = [{"guard": "magic"}, {"guard": "none,etcd"}, {"guard": 3}]
    changes += [{"buyers": 0}, {"buyers": 10**6}, {"hold_ms": -1}]
    assert [with_locust.post("/control/rush", json={**RUSH, **change}).status_code for change in changes] == [400] * 6
    assert locust.forms == []
    locust.success = False
    answer = with_locust.post("/control/rush", json=RUSH)
    assert answer.status_code == 409
    assert "No runner" in answer.get_json()["detail"]
    answer = board.post("/control/rush", json=RUSH)
    assert answer.status_code == 503
    assert "Locust does not answer at http" in answer.get_json()["detail"]


def test_only_a_local_stack_is_frozen(board: FlaskClient, board_settings: BoardSettings, tmp_path: Path) -> None:
    """Without a stack there is nothing to freeze; beyond loopback a token does not help; an ended stack is named."""
    freeze, headers = {"action": "freeze", "instance": "instance-8080"}, {"Authorization": "Bearer s3cret"}
    assert board.post("/control/instance", json=freeze).status_code == 404
    here = board_settings.model_copy(update={"stack": tmp_path / "control"})
    shop = here.shop.model_copy(update={"admin_token": SecretStr("s3cret")})
    there = here.model_copy(update={"host": "0.0.0.0", "shop": shop})
    far = create_board(there).test_client()
    assert far.get("/setup").get_json()["can_freeze"] is False
    assert far.post("/control/instance", json=freeze, headers=headers).status_code == 404
    near = create_board(here).test_client()
    answer = near.post("/control/instance", json=freeze)
    assert (answer.status_code, answer.get_json()["type"]) == (503, "urn:stock-flash-sale:problem:stack_away")
    assert near.post("/control/instance", json={"action": "erase", "instance": "x"}).status_code == 400


def test_recorded_runs_are_offered(board_settings: BoardSettings, tmp_path: Path) -> None:
    """The page is told of the records of each run what they are, the newest run first, and can read them."""
    for name in ("2026-01-01/records/etcd.json", "2026-01-02/records/none.json", "2026-01-02/records/etcd.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        guard, verdict = Path(name).stem, {"verdict": "EXACT", "oversold": 0}
        record = {"guard": guard, "started": name[:10], "scenario": None, "verdict": verdict}
        (tmp_path / name).write_text(json.dumps({**record, "answers": []}))
    (tmp_path / "2026-01-02/records/other.json").write_text("[1]")
    with suppress(OSError):  # macOS has no such names
        (tmp_path / "2026-01-02/records" / os.fsdecode(b"\xff.json")).write_text("{}")
    (tmp_path / "latest").symlink_to("2026-01-02")
    board = create_board(board_settings.model_copy(update={"reports": tmp_path})).test_client()
    offered = board.get("/records").get_json()["records"]
    told = [(each["started"], each["guard"], each["verdict"]["verdict"]) for each in offered]
    assert told == [(f"2026-01-0{day}", guard, "EXACT") for day, guard in ((2, "etcd"), (2, "none"), (1, "etcd"))]
    paths = [each["path"] for each in offered]
    assert [board.get(f"/records/{path}").status_code for path in [*paths, "settings.py"]] == [200, 200, 200, 404]


@pytest.mark.parametrize("address", ["/", "/static/main.js", "/setup", "/nowhere"])
def test_every_answer_is_protected(board: FlaskClient, address: str) -> None:
    """Scripts and styles come from the board alone, and no other page may put it into a frame."""
    headers = board.get(address).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
