"""The labs can be deleted: the tests of the core that concern one are skipped then."""

from __future__ import annotations

from pathlib import Path

import pytest

LABS = Path(__file__).parents[2] / "labs"
needs_labs = pytest.mark.skipif(not LABS.is_dir(), reason="the labs were deleted")
