"""The result of a file as Gradescope reads it: ``results.json``, see https://gradescope-autograders.readthedocs.io."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labs.grade.stages import Result


def results(graded: Sequence[Result]) -> dict[str, Any]:
    """A test for each stage."""
    return {
        "output_format": "text",
        "tests": [
            {
                "name": each.stage.title,
                "score": each.score,
                "max_score": each.stage.points,
                "status": "passed" if each.score else "failed",
                "output": each.output,
                "visibility": "visible",
            }
            for each in graded
        ],
    }
