"""The settings of the board: those of the shop, and its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.config.environment import Reader, address, host_names, http_urls, is_loopback, service_urls, whole
from app.config.settings import Settings

INSTANCES = ("http://127.0.0.1:8080", "http://127.0.0.1:8090")
LOCUST = ("http://127.0.0.1:8089",)


@dataclass(frozen=True, kw_only=True)
class BoardSettings:
    """The settings of the board.

    Attributes:
        shop: the sale that is watched: its Redis, etcd, section log and administrator's token.
        names: host names of the board, besides ``localhost`` and plain addresses.
        instances: base URLs of the shop's instances; see `app.board.sources.instances.find` for ``dns+http``.
        locust: base URL of Locust's page, which starts a rush.
        viewers: most viewers at once; each has its own thread.
        reports: directory with recorded runs to open.
        stack: socket of the local stack, which can freeze and kill an instance.
    """

    shop: Settings = field(default_factory=Settings)
    host: str = "127.0.0.1"
    port: int = 8070
    names: tuple[str, ...] = ()
    instances: tuple[str, ...] = INSTANCES
    locust: str = LOCUST[0]
    viewers: int = 100
    reports: Path | None = None
    stack: Path | None = None

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> BoardSettings:
        """Read ``FLASHSALE_*``; see `Settings.from_environment`."""
        shop = Settings.from_environment(environment)
        read = Reader(environment)
        settings = cls(
            shop=shop,
            host=read("BOARD_HOST", address, shop.host),
            port=read("BOARD_PORT", whole(1, 65535), cls.port),
            names=read("BOARD_NAMES", host_names, shop.names),
            instances=read("INSTANCES", service_urls, INSTANCES),
            locust=read("LOCUST", http_urls, LOCUST)[0],
            viewers=read("BOARD_VIEWERS", whole(1, 1000), cls.viewers),
            reports=read("REPORTS", Path, None),
            stack=read("STACK", Path, None),
        )
        read.raise_problems()
        return settings
