"""How the addresses of a cluster are written."""

from __future__ import annotations


def parse_endpoints(text: str) -> list[str]:
    """``HOST:PORT`` of each endpoint in a comma-separated list; a scheme in front is ignored.

    Raises:
        ValueError: the list is empty, or one is not ``HOST:PORT``.
    """
    addresses = [part.strip().rpartition("://")[2].rstrip("/") for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no etcd endpoint given: name at least one, such as 127.0.0.1:2379")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:  # gRPC would wrap it around
            raise ValueError(f"etcd endpoint {address!r} is not HOST:PORT, such as 127.0.0.1:2379")
    return addresses
