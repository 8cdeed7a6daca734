"""Sessions that look often for what was deleted by hand."""

from __future__ import annotations

from tests.lock.conformance.conftest import quick_looks
