"""The rush, the verdict, and the local stack they run against; the parts talk to the shop over HTTP only."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
