"""docs/openapi.yaml against a running shop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from loadtest.stack.stack import Stack
from tests.support.lock import ROOT

schema = schemathesis.openapi.from_path(ROOT / "docs" / "openapi.yaml")
CHECKS: list[Any] = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a shop that sells all items that there can be."""
    env = {"FLASHSALE_THREADS": "32", "FLASHSALE_ITEMS": "1000"}
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", instances=1, env=env) as stack:
        yield stack.urls[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
@schema.parametrize()
def test_the_shop_answers_as_its_description_says(shop: str, case: Any) -> None:
    """Good requests are accepted, and all get a described status, type and body, whatever the schemas allow."""
    if isinstance(case.query, dict) and case.query.get("hold_ms"):
        case.query = {**case.query, "hold_ms": 1}  # a think time of a minute would be waited for
    response = case.call_and_validate(base_url=shop, checks=CHECKS)
    is_good = case.meta.generation.mode is GenerationMode.POSITIVE
    assert not is_good or response.status_code != 400, response.text
