"""How gunicorn runs the room: ``gunicorn -c labs/room/gunicorn.conf.py 'labs.room.server:create_room()'``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from app.config.environment import SettingsError
from labs.room.crowd import MOST_PHONES
from labs.room.settings import RoomSettings

try:
    settings = RoomSettings.from_environment()
except SettingsError as error:
    sys.exit(str(error))

bind = [settings.address, f"unix:{settings.stage}"]
worker_class = "labs.room.worker.RoomWorker"
workers = 1  # one crowd
worker_connections = 4 * MOST_PHONES
backlog = 1024
keepalive = 15  # seconds; phones ask again every one or two
timeout = 0  # a laptop that was asleep goes on
graceful_timeout = 2
limit_request_line = 1024
limit_request_fields = 40
limit_request_field_size = 2048
forwarded_allow_ips = ""
control_socket_disable = True
if Path("/dev/shm").is_dir():
    worker_tmp_dir = "/dev/shm"

logging.basicConfig(level=logging.INFO, format="%(asctime)s room [%(process)d] %(levelname)s %(message)s")
