"""Whose requests Locust's page answers: the rules of the shop, in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app.web import access
from loadtest.rush import locust_page

EXAMPLES = json.loads((Path(__file__).parents[2] / "data/page_access.json").read_text(encoding="utf-8"))
NAMES = {"known.example"}


def by_the_shop() -> None:
    access.require_known_host(NAMES, setting="")
    access.require_own_page()


def by_locust() -> None:
    locust_page.require_known_host(NAMES)
    locust_page.require_own_page()


@pytest.mark.parametrize("check", [by_the_shop, by_locust])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: ",".join(example["headers"].values()))
def test_shop_and_locust_let_in_the_same_requests(check: Callable[[], None], example: dict[str, Any]) -> None:
    """Addresses and known names, and of pages only the server's own."""
    app = Flask("empty")
    app.before_request(check)
    app.add_url_rule("/", view_func=lambda: "allowed")
    answer = app.test_client().get("/", headers=example["headers"])
    assert answer.status_code == (200 if example["allowed"] else 403)
