"""How gunicorn runs the board: ``gunicorn -c app/board/gunicorn.conf.py 'app.board:create_board()'``."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from app.board.settings import BoardSettings
from app.config.environment import SettingsError

try:
    settings = BoardSettings.from_environment()
except SettingsError as error:
    sys.exit(str(error))

bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
worker_class = "gthread"
workers = 1  # one sampler for all
threads = settings.viewers + 16  # each viewer keeps one; the others are for everything else
graceful_timeout = 2
forwarded_allow_ips = ""  # clients on loopback could send SCRIPT_NAME, and change the path
control_socket_disable = True  # there is one per HOME, and the instances have theirs
if Path("/dev/shm").is_dir():
    worker_tmp_dir = "/dev/shm"  # the heartbeat must not wait for a disk

logging.basicConfig(level=logging.INFO, format="%(asctime)s board [%(process)d] %(levelname)s %(message)s")


def post_worker_init(worker: Any) -> None:
    """Start the sampler; on SIGTERM end all streams, which would keep their threads for minutes."""
    sampler = worker.wsgi.extensions["board"].sampler
    sampler.start()
    stop = signal.getsignal(signal.SIGTERM)

    def stop_and_close(signum: int, frame: Any) -> None:
        # In a thread, because a signal handler must not wait for locks.
        threading.Thread(target=sampler.close, name="close", daemon=True).start()
        stop(signum, frame)  # type: ignore[operator, misc]

    signal.signal(signal.SIGTERM, stop_and_close)
