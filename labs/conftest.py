"""Servers, for the tests of all labs."""

from __future__ import annotations

from tests.support.server_fixtures import etcd, fresh_etcd, fresh_redis, redis_server
