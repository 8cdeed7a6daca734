"""The settings of the room's server, which `up --room` puts into its environment and the board's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from app.board.settings import INSTANCES
from app.config.environment import EnvironmentSettings, HttpUrl, ServiceUrls, matching


class RoomSettings(EnvironmentSettings):
    """Where the phones buy."""

    model_config = SettingsConfigDict(env_prefix="FLASHSALE_ROOM_")

    url: HttpUrl  # of the buyers' page, at this computer's network address
    stage: Path = Path()  # path of the socket file at which the board speaks to the room's server
    # What a phone has to give when it joins, 4 to 8 digits; `None`: nothing.
    pin: Annotated[str, matching(r"\d{4,8}", "give 4 to 8 digits")] | None = Field(default=None, repr=False)
    instances: ServiceUrls = INSTANCES  # base URLs of the shop's instances

    @property
    def address(self) -> str:
        """Host and port, as people type them."""
        return urlsplit(self.url).netloc

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @staticmethod
    def is_set() -> bool:
        """Whether this process belongs to a stack with a room."""
        return bool(os.environ.get("FLASHSALE_ROOM_URL"))

    def environment(self) -> dict[str, str]:
        """What `from_environment` reads."""
        listed = {**dict(self), "instances": ",".join(self.instances)}
        return {f"FLASHSALE_ROOM_{name.upper()}": str(value) for name, value in listed.items() if value}
