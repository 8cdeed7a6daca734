"""What an instance records about each critical section."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app import services
from app.sales.purchase import Purchase
from app.sales.sale import Sale
from app.telemetry.section_log import FULL, SectionLog
from lock import Mutex
from tests.support.shops import WAIT_S, buy, queue_behind


@pytest.fixture
def app(make: Callable[..., Flask], tmp_path: Path) -> Flask:
    """A shop with a section log, under a name that is not a file name."""
    app = make(instance="shop/a", section_log=tmp_path / "section-log")
    app.test_client().post("/stock/reset")
    return app


def recorded(tmp_path: Path) -> list[dict[str, Any]]:
    """The lines of the only file there is."""
    (file,) = (tmp_path / "section-log").iterdir()
    assert file.name == f"shop-a-{os.getpid()}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_try_is_a_section(app: Flask, sale: Sale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overtaken section ends without an outcome; the next one finds nothing and sends no write."""
    monkeypatch.setattr(Purchase, "think", lambda purchase: sale.client.set(sale.keys.stock, 0))
    assert buy(app, "redis-watch")["outcome"] == "sold_out"
    _, first, _, second = recorded(tmp_path)
    assert (first["outcome"], first["commit_at"] is None) == (None, False)
    assert (second["outcome"], second["commit_at"]) == ("sold_out", None)
    assert first["read_at"] < second["read_at"]


def test_a_refused_write_names_the_loss(
    app: Flask, sale: Sale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the write is fenced off, the section ends with the buyer's outcome and the reason."""
    monkeypatch.setattr(Purchase, "think", lambda purchase: sale.client.set(sale.keys.fence, "9" * 20))
    assert buy(app)["outcome"] == "lock_lost"
    leave = recorded(tmp_path)[-1]
    assert (leave["outcome"], leave["cause"]) == ("lock_lost", "fenced_off")


def test_a_purchase_that_waits_in_vain_leaves_no_line(
    app: Flask, tmp_path: Path, crowd: ThreadPoolExecutor, stranger: Mutex
) -> None:
    """It was in no critical section."""
    with stranger.acquire(timeout=WAIT_S):
        purchase = queue_behind(stranger, crowd, app, "etcd")
        services.of(app).drain()
        assert purchase.result(WAIT_S)["outcome"] == "unavailable"
    assert not (tmp_path / "section-log").exists()


def test_nothing_is_recorded_unless_asked_for(
    make: Callable[..., Flask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without FLASHSALE_SECTION_LOG no file is made."""
    monkeypatch.chdir(tmp_path)
    assert buy(make())["status"] == 200
    assert list(tmp_path.iterdir()) == []


def use(section_log: SectionLog, count: int) -> None:
    """Have some critical sections."""
    for _ in range(count):
        with Purchase("ada", "none", listener=section_log).critical_section():
            pass
    section_log.close()


def test_a_full_file_says_so(tmp_path: Path) -> None:
    """What does not fit any more is left out, visibly, and the sale goes on."""
    section_log = SectionLog(tmp_path, instance="a", largest=1500)
    use(section_log, 20)
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
    use(section_log, 3)
    assert [record.message[:26] for record in caplog.records] == ["the section log ends here:"]
