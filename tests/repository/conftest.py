"""Scripts of the repository, and a browser for the site of its documents."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.support.browser_fixtures import chromium, chromium_path
from tests.support.modules import module_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def readme_script() -> ModuleType:
    """scripts/readme.py, which writes the generated parts."""
    return module_of(ROOT / "scripts/readme.py")
