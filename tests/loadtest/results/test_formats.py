"""docs/formats.md: the schemas are those of the classes, and real files keep to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from jsonschema import Draft202012Validator

from app.sales.sale import Sale
from tests.support.modules import module_of
from tests.support.shops import WAYS, buy

ROOT = Path(__file__).parents[3]
SCHEMAS = ROOT / "docs/schemas"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_schemas_are_those_of_the_classes() -> None:
    """A member that was added to a class is in its schema: else run `python scripts/schemas.py`."""
    for name, text in module_of(ROOT / "scripts/schemas.py").generated().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize("way", WAYS)
def test_the_section_log_fits_its_schema(make: Callable[..., Flask], sale: Sale, tmp_path: Path, way: str) -> None:
    """Every line of a purchase, under every guard and every lab's way of selling."""
    assert buy(make(section_log=tmp_path), way)["outcome"] == "sold"
    lines: list[dict[str, Any]] = [
        json.loads(line)
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_bytes().split(b"\n")
        if b"\0" not in line
    ]
    assert {line["event"] for line in lines} == {"enter", "leave"}
    for line in lines:
        validator("section-log.json").validate(line)
