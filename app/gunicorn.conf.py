"""How gunicorn runs one instance: ``gunicorn -c app/gunicorn.conf.py 'app:create_app()'``.

The access log is off; ``--access-logfile -`` turns it on.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gunicorn.glogging import Logger  # type: ignore[import-untyped]

from app.config.settings import Settings, SettingsError

try:
    settings = Settings.from_environment()
except SettingsError as error:
    sys.exit(str(error))

bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
worker_class = "gthread"
workers = 1  # so its metrics are those of the instance; to use more CPUs, start more instances
threads = settings.threads
preload_app = False  # gRPC does not survive a fork
backlog = 4096  # in a rush, all buyers connect at once
keepalive = 60  # seconds; a buyer who pauses before the click needs no new connection
timeout = 0  # never: the master would kill a worker that a fault has paused
graceful_timeout = 8  # seconds; Compose kills after 15
forwarded_allow_ips = ""  # clients on loopback could send SCRIPT_NAME, and change the path
control_socket_disable = True  # its path is the same for all instances of a HOME
if Path("/dev/shm").is_dir():
    worker_tmp_dir = "/dev/shm"  # the heartbeat must not wait for a disk

# A worker that runs out of file descriptors dies, so it accepts fewer connections than it has descriptors. Each thread
# has a connection to Redis.
_, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
files = 16384 if most_files == resource.RLIM_INFINITY else min(16384, most_files)
resource.setrlimit(resource.RLIMIT_NOFILE, (files, most_files))
worker_connections = max(files - (threads + 1) - 128, threads + 1)

# Seconds that a thread keeps the interpreter while others wait for it. With hundreds of waiting threads, the default of
# 5 ms makes a rush up to a fifth longer.
sys.setswitchinterval(0.05)

line_format = f"%(asctime)s {settings.instance.replace('%', '%%')} [%(process)d] %(levelname)s %(message)s"
logging.basicConfig(level=logging.INFO, format=line_format)


class InstanceLogger(Logger):  # type: ignore[misc]
    """gunicorn's log in the format of the shop's: each line has time and instance."""

    datefmt = None
    error_fmt = line_format
    access_fmt = line_format


logger_class = InstanceLogger


def post_fork(server: Any, worker: Any) -> None:
    """Choose the worker's CPU before it has a thread, and let SIGTERM end it while it is still starting."""
    from app.server.cpu import run_on

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the handler inherited from the master would not end it
    if settings.cpu is not None:
        worker.log.info("Worker %s: %s", os.getpid(), run_on(settings.cpu))


def post_worker_init(worker: Any) -> None:
    """Connect to etcd and Redis. At SIGTERM refuse all purchases that wait for a lock.

    Two seconds before the master kills the worker, release its locks: after a kill they would stay locked until the
    lease expires.
    """
    from app import services
    from app.server.heartbeat import Heartbeat
    from app.server.threads import RequestCount, queued, start_all

    shop = services.of(worker.wsgi)
    stop = signal.getsignal(signal.SIGTERM)

    def drain() -> None:
        shop.drain()
        time.sleep(max(worker.cfg.graceful_timeout - 2, 0))
        shop.sessions.close()

    def stop_and_drain(signum: int, frame: Any) -> None:
        # In a thread, because a signal handler must not wait for locks.
        threading.Thread(target=drain, name="drain", daemon=True).start()
        stop(signum, frame)  # type: ignore[operator, misc]

    signal.signal(signal.SIGTERM, stop_and_drain)
    count = worker.wsgi.wsgi_app = RequestCount(worker.wsgi.wsgi_app)
    start_all(worker.tpool, threads)

    def load() -> dict[str, int]:
        return {"threads": threads, "in_hand": count.in_hand, "queued": queued(worker.tpool)}

    shop.warm_up()
    if settings.section_log is not None:
        outcomes = shop.metrics.outcomes
        worker.heartbeat = Heartbeat(settings.section_log, settings.instance, load=load, outcomes=outcomes)
        worker.heartbeat.start()
    # Objects that exist now are never garbage: spare the collector a visit of them during a rush.
    gc.collect()
    gc.freeze()


def worker_exit(server: Any, worker: Any) -> None:
    """Revoke the lease, so that other instances need not wait until it expires."""
    from app import services

    if hasattr(worker, "heartbeat"):
        worker.heartbeat.close()
    if hasattr(worker, "wsgi"):
        services.of(worker.wsgi).close()
