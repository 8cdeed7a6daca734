"""Find a browser for the tests of the pages and `make show`: python scripts/chromium.py prints its path.

Nothing is downloaded. CHROMIUM names a program; without it, the system's Chromium or Chrome is used.
"""

from __future__ import annotations

import os
import shutil
import sys

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
MISSING = "No Chromium found: apt install chromium (Homebrew: brew install --cask chromium), or name one: CHROMIUM=..."


def find_chromium() -> str:
    """The path of the browser; FileNotFoundError says in one line what to install if there is none."""
    chosen = os.environ.get("CHROMIUM")
    for name in [chosen] if chosen else NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    raise FileNotFoundError(MISSING)


if __name__ == "__main__":
    try:
        print(find_chromium())
    except FileNotFoundError as error:
        sys.exit(str(error))
