"""Secrets from files, as Docker and Kubernetes hand them over, and the password in the address of Redis."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def read_secret(path: str) -> str:
    """The line in a file, without the blanks around it; raises OSError or ValueError where it is not one line."""
    secret = Path(path).read_text(encoding="utf-8").strip()
    if len(secret.splitlines()) > 1:
        raise ValueError("it has several lines, and a secret is one")
    return secret


def with_password(url: str, password: str) -> str:
    """The URL of Redis, ``SCHEME://[USER@]...``, with this password.

    Raises:
        ValueError: it has one.
    """
    scheme, _, rest = url.partition("://")
    login, _, place = rest.rpartition("@")
    if ":" in login:
        raise ValueError("has a password, and FLASHSALE_REDIS_PASSWORD gives another: leave one out")
    return f"{scheme}://{login}:{quote(password, safe='')}@{place}"
