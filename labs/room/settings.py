"""The settings of the room's server, which `up --room` puts into its environment and the board's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.board.settings import INSTANCES
from app.config.environment import Reader, http_urls, matching, service_urls


@dataclass(frozen=True, kw_only=True)
class RoomSettings:
    """Where the phones buy.

    Attributes:
        url: of the buyers' page, at this computer's network address.
        stage: path of the socket file at which the board speaks to the room's server.
        pin: what a phone has to give when it joins; None: nothing.
        instances: base URLs of the shop's instances.
    """

    url: str
    stage: Path
    pin: str | None = None
    instances: tuple[str, ...] = INSTANCES

    @property
    def address(self) -> str:
        """Host and port, as people type them."""
        return urlsplit(self.url).netloc

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> RoomSettings | None:
        """Read ``FLASHSALE_ROOM*``; None without a room. Raises SettingsError."""
        read = Reader(environment)
        urls = read("ROOM", http_urls, ())
        settings = cls(
            url=urls[0] if urls else "",
            stage=read("ROOM_STAGE", Path, Path()),
            pin=read("ROOM_PIN", matching(r"\d{4,8}", "give 4 to 8 digits"), None, is_secret=True),
            instances=read("INSTANCES", service_urls, INSTANCES),
        )
        read.raise_problems()
        return settings if urls else None

    def environment(self) -> dict[str, str]:
        """What `from_environment` reads."""
        pin = {"FLASHSALE_ROOM_PIN": self.pin} if self.pin else {}
        return {
            "FLASHSALE_ROOM": self.url,
            "FLASHSALE_ROOM_STAGE": str(self.stage),
            "FLASHSALE_INSTANCES": ",".join(self.instances),
            **pin,
        }
