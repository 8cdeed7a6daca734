"""What an instance records about each critical section."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app import create_app, services
from app.clock import now_ns
from app.config.settings import Settings
from app.guards import GUARDS
from app.sales.purchase import Purchase
from app.sales.sale import Sale
from app.telemetry.section_log import FULL, SectionLog
from lock import Mutex, Session, connect
from tests.support.waiting import wait_until

GUARD_NAMES = [guard.name for guard in GUARDS]


@pytest.fixture
def app(settings: Settings, tmp_path: Path) -> Iterator[Flask]:
    """A shop that records, under a name that is no file name."""
    app = create_app(dataclasses.replace(settings, instance="shop/a", section_log=tmp_path / "section-log"))
    app.test_client().post("/stock/reset")
    yield app
    services.of(app).close()


def recorded(tmp_path: Path) -> list[dict[str, Any]]:
    """The lines of the only file there is."""
    (file,) = (tmp_path / "section-log").iterdir()
    assert file.name == f"shop-a-{os.getpid()}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("guard", GUARD_NAMES)
def test_a_sale_is_two_lines(app: Flask, tmp_path: Path, guard: str) -> None:
    """Enter tells who, under which token; leave tells when it was read and written, and that it was sold."""
    before = now_ns()
    sold = app.test_client().post(f"/stock/reduce?guard={guard}&buyer=ada&hold_ms=2").get_json()
    enter, leave = recorded(tmp_path)
    assert (enter["event"], enter["buyer"], enter["guard"], enter["instance"]) == ("enter", "ada", guard, "shop/a")
    assert (enter["pid"], enter["order"], enter["token"]) == (os.getpid(), sold["order"], sold["token"])
    assert enter["item"] == "1"
    assert (leave["event"], leave["order"]) == ("leave", sold["order"])
    assert (leave["outcome"], leave["cause"]) == ("sold", None)
    assert before < enter["at"] < leave["commit_at"] < leave["at"]
    if guard not in ("redis-lua", "etcd-batch"):  # which read and write in one script
        assert enter["at"] < leave["read_at"] < leave["commit_at"] - 2_000_000


@pytest.mark.parametrize("guard", GUARD_NAMES)
def test_a_replay_is_told_from_a_sale(app: Flask, tmp_path: Path, guard: str) -> None:
    """A section that found its idempotency key answered wrote nothing, and says why."""
    browser, headers = app.test_client(), {"Idempotency-Key": "k"}
    for _ in range(2):
        browser.post(f"/stock/reduce?guard={guard}", headers=headers)
    assert [(line["outcome"], line["cause"]) for line in recorded(tmp_path)[1::2]] == [
        ("sold", None),
        ("sold", "replayed"),
    ]


def test_each_try_is_a_section(app: Flask, sale: Sale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overtaken section ends without an outcome; the next one finds nothing and sends no write."""
    monkeypatch.setattr(Purchase, "think", lambda purchase: sale.client.set(sale.keys.stock, 0))
    assert app.test_client().post("/stock/reduce?guard=redis-watch").get_json()["outcome"] == "sold_out"
    _, first, _, second = recorded(tmp_path)
    assert (first["outcome"], first["commit_at"] is None) == (None, False)
    assert (second["outcome"], second["commit_at"]) == ("sold_out", None)
    assert first["read_at"] < second["read_at"]


def test_a_refused_write_names_the_loss(
    app: Flask, sale: Sale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the write is fenced off, the section ends with the buyer's outcome and the reason."""
    monkeypatch.setattr(Purchase, "think", lambda purchase: sale.client.set(sale.keys.fence, "9" * 20))
    assert app.test_client().post("/stock/reduce").get_json()["outcome"] == "lock_lost"
    leave = recorded(tmp_path)[-1]
    assert (leave["outcome"], leave["cause"]) == ("lock_lost", "fenced_off")


def test_a_purchase_that_waits_in_vain_leaves_no_line(app: Flask, tmp_path: Path, settings: Settings) -> None:
    """It was in no critical section."""
    with (
        ThreadPoolExecutor(1) as thread,
        connect(settings.etcd_endpoints) as client,
        Session(client, name="stranger") as session,
        (mutex := Mutex(session, f"flash-sale/{settings.sale}")).acquire(timeout=20),
    ):
        purchase = thread.submit(app.test_client().post, "/stock/reduce")
        wait_until(lambda: len(mutex.contenders()) == 2)
        services.of(app).drain()
        assert purchase.result(20).get_json()["outcome"] == "unavailable"
    assert not (tmp_path / "section-log").exists()


def test_nothing_is_recorded_unless_asked_for(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without FLASHSALE_SECTION_LOG no file is made."""
    monkeypatch.chdir(tmp_path)
    app = create_app(settings)
    assert app.test_client().post("/stock/reduce").status_code == 200
    services.of(app).close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_says_so(tmp_path: Path) -> None:
    """What does not fit any more is left out, visibly, and the sale goes on."""
    section_log = SectionLog(tmp_path, instance="a", largest=1500)
    for _ in range(20):
        with Purchase("ada", "none", listener=section_log).critical_section():
            pass
    section_log.close()
    (file,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert 2 < len(lines) < 12
    assert lines[-1] == FULL
    assert lines.count(FULL) == 1
    assert file.stat().st_size <= 1500 + 20


def test_a_disk_that_fails_does_not_stop_the_sale(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the directory cannot be made, one line of the log says so and purchases go on."""
    (tmp_path / "taken").write_text("")
    section_log = SectionLog(tmp_path / "taken", instance="a")
    for _ in range(3):
        with Purchase("ada", "none", listener=section_log).critical_section():
            pass
    assert [record.message[:26] for record in caplog.records] == ["the section log ends here:"]
