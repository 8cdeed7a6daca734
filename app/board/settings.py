"""The settings of the board: those of the shop, and its own."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from app.config.environment import Address, EnvironmentSettings, HostNames, HttpUrl, ServiceUrls, is_loopback
from app.config.settings import Settings

INSTANCES = ("http://127.0.0.1:8080", "http://127.0.0.1:8090")


class BoardSettings(EnvironmentSettings):
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

    model_config = SettingsConfigDict(env_prefix="FLASHSALE_BOARD_")

    shop: Settings = Field(default_factory=Settings.from_environment)
    host: Address = Field(default_factory=lambda read: read["shop"].host)
    port: int = Field(default=8070, ge=1, le=65535)
    names: HostNames = Field(default_factory=lambda read: read["shop"].names)
    viewers: int = Field(default=100, ge=1, le=1000)
    instances: ServiceUrls = Field(default=INSTANCES, validation_alias="FLASHSALE_INSTANCES")
    locust: HttpUrl = Field(default="http://127.0.0.1:8089", validation_alias="FLASHSALE_LOCUST")
    reports: Path | None = Field(default=None, validation_alias="FLASHSALE_REPORTS")
    stack: Path | None = Field(default=None, validation_alias="FLASHSALE_STACK")

    @property
    def admin_token(self) -> SecretStr | None:
        return self.shop.admin_token

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)
