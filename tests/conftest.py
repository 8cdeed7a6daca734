"""Servers, for all tests of the core."""

from __future__ import annotations

from tests.support.server_fixtures import etcd, fresh_etcd, fresh_redis, redis_server
