"""How gunicorn runs the bare apps: as an instance of the shop, without the shop's hooks and log."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

_OF_THE_SHOP = run_path(str(Path(__file__).parents[2] / "app/gunicorn.conf.py"))
globals().update({name: value for name, value in _OF_THE_SHOP.items() if isinstance(value, bool | int | str)})


def post_worker_init(worker: object) -> None:
    """Keep what exists now from the garbage collector, as an instance does."""
    import gc

    gc.collect()
    gc.freeze()
