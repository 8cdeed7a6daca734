"""Which settings to look at when etcd or Redis refuses the login or the encryption."""

from __future__ import annotations

import re

import redis

from lock import EtcdDenied, EtcdUnavailable

ETCD_USER = (
    "FLASHSALE_ETCD_USER and FLASHSALE_ETCD_PASSWORD have to name a user who may read and write the keys flash-sale/* "
    "and sale/*."
)
REDIS_USER = (
    "FLASHSALE_REDIS_URL has to name a user, with the password or FLASHSALE_REDIS_PASSWORD, who may run all commands "
    "on the keys sale:*."
)
_ETCD_TLS = "FLASHSALE_ETCD_CA, and FLASHSALE_ETCD_CERT with FLASHSALE_ETCD_KEY, have to fit etcd's certificates."
_REDIS_TLS = (
    "FLASHSALE_REDIS_URL has to begin with rediss:// where Redis uses TLS, with ssl_ca_certs= for its authority."
)
_ADVICE: tuple[tuple[type[Exception], str, str], ...] = (
    (EtcdDenied, "", ETCD_USER),
    (EtcdUnavailable, "handshake|socket closed", _ETCD_TLS),
    (redis.AuthenticationError, "", REDIS_USER),
    (redis.exceptions.NoPermissionError, "", REDIS_USER),
    (redis.ConnectionError, "ssl|reset by peer|closed by server", _REDIS_TLS),
)


def describe(error: Exception) -> str:
    """The error's message, with the settings to check if they may be the cause."""
    for kind, words, advice in _ADVICE:
        if isinstance(error, kind) and re.search(words, str(error), re.IGNORECASE):
            return f"{str(error).rstrip('.')}. {advice}"
    return str(error)
