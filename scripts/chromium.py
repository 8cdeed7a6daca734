"""Finds the browser for `make test-browser` and `make show`: python scripts/chromium.py says which one, or what to do.

Nothing is downloaded: it is the system's Chromium or Chrome, or the program that CHROMIUM names.
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
MISSING = "No Chromium here: apt install chromium (Homebrew: brew install --cask chromium), or name one: CHROMIUM=..."


def find_chromium() -> str:
    """Its path; SystemExit with one line that says what to install if there is none."""
    asked = os.environ.get("CHROMIUM")
    for name in [asked] if asked else NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    sys.exit(MISSING)


if __name__ == "__main__":
    print(find_chromium())
