"""Write docs/schemas/ from the classes that read and write the files; the section log's is written by hand."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from loadtest.results.comparison import Comparison  # noqa: E402
from loadtest.results.record import FORMAT, VERSION, Record  # noqa: E402

SCHEMAS = ROOT / "docs/schemas"


def _schema(kind: type) -> dict[str, Any]:
    root = msgspec.json.schema(kind)
    for part in root["$defs"].values():
        if "description" in part:
            part["description"] = inspect.cleandoc(part["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root}


def generated() -> dict[str, str]:
    """The text of each generated schema, by its file name."""
    record = _schema(Record)
    members = record["$defs"]["Record"]
    members["properties"] = {"format": {"const": FORMAT}, "version": {"const": VERSION}, **members["properties"]}
    members["required"] += ["format", "version"]
    schemas = {"comparison": _schema(Comparison), "record": record}
    return {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


if __name__ == "__main__":
    for name, text in generated().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
