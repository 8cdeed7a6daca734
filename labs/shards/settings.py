"""The settings of this lab."""

from __future__ import annotations

from pydantic import Field

from app.config.environment import EnvironmentSettings


class ShardSettings(EnvironmentSettings):
    """Of an instance.

    Attributes:
        shards: parts that `etcd-sharded` divides the stock of an item into; the same on all instances.
        redis_replicas: of Redis, that must have a purchase before it is answered; else it is in doubt.
    """

    shards: int = Field(default=4, ge=1, le=64)
    redis_replicas: int = Field(default=0, ge=0, le=5)
