"""docs/openapi.yaml against a running shop."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
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


@pytest.mark.slow
@pytest.mark.timeout(300)
@schema.parametrize()
def test_the_shop_answers_as_its_description_says(running_stack: Stack, case: Any) -> None:
    """Good requests and bad ones get a described status, type and body, whatever Schemathesis makes of the schemas."""
    if isinstance(case.query, dict) and case.query.get("hold_ms"):
        case.query = {**case.query, "hold_ms": 1}  # a think time of a minute would be waited for
    case.call_and_validate(base_url=running_stack.urls[0], checks=CHECKS)
