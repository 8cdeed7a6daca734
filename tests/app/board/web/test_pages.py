"""What the page is told of this board before it shows anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.board import create_board
from app.board.settings import BoardSettings

RUN = "2026-01-01_00-00-00"


@pytest.mark.parametrize("damaged", [f"{RUN}/records/\udcff.json", "\udcff/records/etcd.json"])
def test_a_name_that_is_no_text_is_not_offered(board_settings: BoardSettings, tmp_path: Path, damaged: str) -> None:
    """A file whose name is not UTF-8 keeps nobody from the other records."""
    for name in (f"{RUN}/records/etcd.json", f"{RUN}/records/none.json", damaged):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    answer = create_board(replace(board_settings, reports=tmp_path)).test_client().get("/setup")
    assert answer.status_code == 200
    assert answer.get_json()["reports"] == [f"{RUN}/records/etcd.json", f"{RUN}/records/none.json"]
