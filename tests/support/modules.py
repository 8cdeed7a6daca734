"""Modules that are in no package, such as scripts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def module_of(path: Path) -> ModuleType:
    """The module in a file that is not in a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
