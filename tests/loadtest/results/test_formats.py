"""docs/formats.md: the schemas are those of the classes. Tests of what is written hold real files to them."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from scripts import schemas

ROOT = Path(__file__).parents[3]
SCHEMAS = ROOT / "docs/schemas"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_schemas_are_those_of_the_classes() -> None:
    """A member that was added to a class is in its schema: else run `python scripts/schemas.py`."""
    for name, text in schemas.generated().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == text, name
