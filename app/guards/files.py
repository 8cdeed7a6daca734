"""What is wrong with a file that is to be a guard, in a sentence that names it."""

from __future__ import annotations

import traceback
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
NEEDS = ("name", "promise", "description")


def shown(path: Path | str) -> str:
    """A path as people read it: from the repository, if it is there."""
    resolved = Path(path).resolve()
    return resolved.relative_to(REPOSITORY).as_posix() if resolved.is_relative_to(REPOSITORY) else str(path)


def why_not(error: Exception, path: Path | str) -> str:
    """Why a file cannot be run, such as ``line 3: ModuleNotFoundError: No module named 'x'.``"""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {error.msg}."
    of_file = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)]
    return f"{f'line {of_file[-1]}: ' if of_file else ''}{type(error).__name__}: {error}."
