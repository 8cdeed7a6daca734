"""Settings as a process reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar
from unittest import mock

from app.config.environment import EnvironmentSettings

S = TypeVar("S", bound=EnvironmentSettings)


def read_settings(kind: type[S], given: Mapping[str, str]) -> S:
    """The settings of a process whose environment has these variables alone."""
    with mock.patch.dict(os.environ, given, clear=True):
        return kind.from_environment()
