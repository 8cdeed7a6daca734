"""Make the client of etcd from the settings. gunicorn's master must not import this: gRPC does not survive a fork."""

from __future__ import annotations

from app.config.settings import Settings
from lock import Client, Tls, connect


def connect_etcd(settings: Settings, *, timeout: float = 2.0) -> Client:
    """A client with the certificates and the login of the settings; each of its calls ends after `timeout` seconds.

    Raises:
        OSError: a certificate file cannot be read.
    """
    tls = Tls(settings.etcd_ca, settings.etcd_cert, settings.etcd_key) if settings.etcd_ca else None
    password = settings.etcd_password.get_secret_value() if settings.etcd_password else None
    return connect(settings.etcd_endpoints, timeout=timeout, tls=tls, user=settings.etcd_user, password=password)
