"""How gunicorn runs the bare apps: as an instance of the shop, without the shop's hooks."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

worker_class = "gthread"
_SHARED = ("bind", "workers", "threads", "backlog", "keepalive", "timeout", "worker_connections")
_OF_THE_SHOP = run_path(str(Path(__file__).parents[2] / "app/gunicorn.conf.py"))
globals().update({name: _OF_THE_SHOP[name] for name in (*_SHARED, "control_socket_disable", "graceful_timeout")})
if "worker_tmp_dir" in _OF_THE_SHOP:
    worker_tmp_dir = _OF_THE_SHOP["worker_tmp_dir"]


def post_worker_init(worker: object) -> None:
    """Keep what exists now from the garbage collector, as an instance does."""
    import gc

    gc.collect()
    gc.freeze()
