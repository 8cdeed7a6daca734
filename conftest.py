"""How all tests run, and the fixtures that all have. Others are in the conftest.py of the folders that use them."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [f"tests.support.{name}_fixtures" for name in ("browser", "server", "shop")]


def pytest_configure(config: pytest.Config) -> None:
    """No example has a deadline, and signals are as in a terminal, also if the parent process ignores some.

    Instances run on all CPUs: those of several test workers would crowd the first one.

    Compiled modules are kept: hundreds of processes import the same ones. One that crashes says where.

    Every run tries the same examples.

    Of schemathesis, which takes each worker a second, there are slow tests alone.
    """
    if has_slow_ones(config):
        config.pluginmanager.import_plugin("schemathesis.pytest.plugin")
    settings.register_profile(
        "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
    settings.load_profile("same")
    gc.disable()
    os.environ.setdefault("FLASHSALE_CPU", "")
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def has_slow_ones(config: pytest.Config) -> bool:
    """Whether tests that are marked slow may be among those that run."""
    return str(config.option.markexpr) != "not slow"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The file that needs schemathesis has slow tests alone."""
    return True if collection_path.name == "test_openapi.py" and not has_slow_ones(config) else None


def pytest_collection_finish() -> None:
    """Garbage collections leave out what was collected, which they would look through again and again."""
    gc.freeze()
    gc.enable()
