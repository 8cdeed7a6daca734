"""The command: python -m app.board."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CONFIGURATION = Path(__file__).with_name("gunicorn.conf.py")

if __name__ == "__main__":
    # The process becomes gunicorn, so that signals reach it and not a parent that waits.
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "-c", str(CONFIGURATION), "app.board:create_board()"])
