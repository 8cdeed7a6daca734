"""docs/settings.md says what the programs read."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

import pytest

from app.board.settings import BoardSettings
from app.config.environment import SettingsError
from loadtest.stack.apps import BOARD_URL

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(
    r"^\| `(FLASHSALE_\w+)` \| (.*?) \| (.*?) \|", (ROOT / "docs/settings.md").read_text(encoding="utf-8"), re.MULTILINE
)
DEFAULTS = [(name, default.strip("`")) for name, default, _ in ROWS if default.startswith("`")]
RANGES = [(name, *values.split(" to ")) for name, _, values in ROWS if re.fullmatch(r"[\d.]+ to \d+", values)]


class Asked(dict[str, str]):
    """An empty environment that knows what was asked of it."""

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        self[name] = default
        return default


def test_every_variable_is_described_once() -> None:
    """The tables have all that shop, board and Locust read, and nothing else."""
    asked = Asked()
    BoardSettings.from_environment(asked)
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("loadtest/**/*.py"))
    assert sorted(name for name, *_ in ROWS) == sorted({*asked, *re.findall(r"FLASHSALE_[A-Z_]*[A-Z]", sources)})


@pytest.mark.parametrize(("name", "default"), DEFAULTS)
def test_a_default_is_what_holds_without_it(name: str, default: str) -> None:
    """To set a variable to the default that is described changes nothing."""
    if name == "FLASHSALE_BOARD_URL":
        assert default == BOARD_URL
    else:
        assert BoardSettings.from_environment({name: default}) == BoardSettings()


@pytest.mark.parametrize(("name", "least", "most"), RANGES)
def test_a_range_is_taken_to_its_ends(name: str, least: str, most: str) -> None:
    """The least and the most that are described are taken, and what is beyond them is not."""
    for value in (least, most):
        BoardSettings.from_environment({name: value})
    for value in (str(ceil(float(least)) - 1), str(int(most) + 1)):
        with pytest.raises(SettingsError, match=name):
            BoardSettings.from_environment({name: value})
