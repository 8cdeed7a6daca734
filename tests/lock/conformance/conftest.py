"""What the suite is run against: each recipe, for threads and for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, Session, connect
from lock.core import reconciler
from tests.lock.conformance.recipes import IDS, USES, Face, Loop, Make
from tests.support.waiting import Patch

FEW = {"mutex-threads", "cohort-threads", "multi-threads", "reader-threads", "mutex-tasks"}


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The cases of cancellation, m, run over five recipes: one engine ends the waits of all.
    items[:] = [item for item in items if not item.name.startswith("test_m_") or not is_a_recipe_too_many(item)]
    for item in items:
        if item.name.startswith("test_n_") and is_a_recipe_too_many(item):
            item.add_marker(pytest.mark.slow)


def is_a_recipe_too_many(item: pytest.Item) -> bool:
    recipes = {part for part in IDS if part in item.name}
    return bool(recipes) and not recipes & FEW


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: Patch) -> None:
    """A session finds what was deleted by hand at once: it looks for that every two seconds, in each of many tests."""
    monkeypatch.setattr(reconciler, "_PERIOD_S", 0.1)


@pytest.fixture
def opens(etcd: Etcd) -> Callable[[], Client]:
    """Makes clients."""
    return partial(connect, etcd.endpoint)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(params=USES, ids=IDS)
def make(request: pytest.FixtureRequest, name: str) -> Make:
    """Makes each recipe in turn for a session, on the name of the test unless told otherwise."""
    recipe, tasks = request.param
    loop = request.getfixturevalue("loop") if tasks else None
    return lambda session, at=name: Face(recipe, tasks, session, at, loop)


@pytest.fixture
def face(make: Make, session: Session) -> Face:
    return make(session)


@pytest.fixture
def theirs(face: Face, stranger: Session) -> Face:
    """What excludes it, in another process."""
    return face.rival(stranger)
