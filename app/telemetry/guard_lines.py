"""The lines of a guard's `buy`: as they stand in its file, and the one in which a purchase is.

A listener asks for the line while it is told of a point, and the thread's stack has it. So every guard has lines, those
that a learner adds included, and none needs a table of them.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from app.contract.section_log import GuardSource

REPOSITORY = Path(__file__).resolve().parents[2]


class GuardLines:
    """The lines of one guard. Thread-safe.

    Args:
        buy: the guard's method, as a function of its class.
    """

    def __init__(self, buy: Callable[..., Any]) -> None:
        self._buy = inspect.unwrap(buy)
        self._code = self._buy.__code__

    def line_of(self, frame: FrameType | None) -> int | None:
        """The line of the file in which the thread with this frame is inside `buy`; `None` if it is not inside."""
        while frame is not None:
            if frame.f_code == self._code:  # also if the same file was loaded anew
                return frame.f_lineno
            frame = frame.f_back
        return None

    @cached_property
    def source(self) -> GuardSource:
        """The text of `buy`, without the indentation that all lines share; raises OSError if the file is gone."""
        lines, first = inspect.getsourcelines(self._buy)
        path = Path(self._code.co_filename).resolve()
        file = path.relative_to(REPOSITORY).as_posix() if path.is_relative_to(REPOSITORY) else path.name
        return GuardSource(file, first, textwrap.dedent("".join(lines)))
