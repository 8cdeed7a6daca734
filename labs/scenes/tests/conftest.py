"""A stack for the scenes."""

from __future__ import annotations

from tests.support.stack_fixtures import running_stack, stack
