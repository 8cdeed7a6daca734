"""Resolve the URLs of instances: ``dns+http://NAME:PORT`` is one base URL for each address of the name."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def addresses_of(url: str) -> list[str]:
    """The base URLs for one of the settings. They have addresses for hosts, which every instance accepts.

    Raises:
        OSError: the name has no address.
    """
    if not url.startswith("dns+"):
        return [url]
    name = urlsplit(url)
    port = name.port or 80
    answers = socket.getaddrinfo(name.hostname, port, type=socket.SOCK_STREAM)
    hosts = sorted({str(address[0]) for *_, address in answers})
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}" for host in hosts]
