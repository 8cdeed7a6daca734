"""Servers that tests share: real ones, on free ports, gone at the end."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from loadtest.stack.servers import Etcd, Redis

REPOSITORY = Path(__file__).resolve().parents[2]


def pytest_configure(config: pytest.Config) -> None:
    """No example has a deadline, and signals are as in a terminal, also if the parent process ignores some.

    Every run tries the same examples, unless `--hypothesis-profile search` asks for new ones.
    """
    for name, same in (("same", True), ("search", False)):
        settings.register_profile(
            name, deadline=None, derandomize=same, suppress_health_check=[HealthCheck.too_slow], print_blob=True
        )
    settings.load_profile(config.getoption("--hypothesis-profile") or "same")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One etcd for the whole run: use your own names, and leave it running."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def fresh_etcd(tmp_path: Path) -> Iterator[Etcd]:
    """This test's own etcd, to be stopped, paused or killed."""
    with Etcd(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """One Redis for the whole run: flush it before use, and leave it running."""
    with Redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


def module_of(path: Path) -> ModuleType:
    """The module in a file that is not in a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def readme_script() -> ModuleType:
    """scripts/readme.py, which writes the generated parts."""
    return module_of(REPOSITORY / "scripts/readme.py")
