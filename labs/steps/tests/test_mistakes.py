"""The famous wrong locks are condemned, and cleared with the lines that mend them."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.steps.mistakes import diff_of, mended, mistakes
from labs.steps.mistakes_command import Judgement
from tests.support.commands import finished

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not mistakes(), reason="labs/mistakes was deleted"),
]


@pytest.mark.slow
def test_two_mistakes_are_condemned_and_cleared_when_they_are_mended(tmp_path: Path) -> None:
    """The command says which order breaks each, and with which lines none does; its exit code is 0."""
    done = finished(tmp_path, "mistakes", "ask-then-decrease", "delete-unowned")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("ask-then-decrease", "delete-unowned"):
        assert f"{name}: {Judgement.CONDEMNED.value}" in done.stdout
        assert f"{name}-mended: {Judgement.CLEARED.value}" in done.stdout
    assert "  A begins · A GET stock · B begins · B GET stock · B MULTI, told sold" in done.stdout
    assert "+                self.release(key, owner)" in done.stdout


@pytest.mark.parametrize("name", mistakes())
def test_a_mend_changes_its_guard_alone(name: str) -> None:
    """The mended class is another one with the same promise, and its lines can be shown."""
    kind = mistakes()[name]
    assert (mended(kind).name, mended(kind).promise) == (f"{name}-mended", kind.promise)
    changed = [line for line in diff_of(kind) if line[0] in "+-"]
    assert changed[:2] == [f"--- {name}", f"+++ {name}-mended"]
    assert len(changed) > 2
