"""The guard of the file that is graded, among those of the shop: for the processes of an exploration."""

from __future__ import annotations

import os

from app.guards import guards
from labs.grade.guard_files import GuardFile

FILE = "GRADED_FILE"  # the variable that names it

guard = GuardFile(os.environ[FILE]).load()
guards()[guard.name] = guard
