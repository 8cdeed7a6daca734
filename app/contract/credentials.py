"""Read secrets from files, as Docker and Kubernetes provide them, and put a password into the URL of Redis."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def read_secret(path: str) -> str:
    """The only line of a file, without surrounding blanks; raises OSError, or ValueError if there are more lines."""
    secret = Path(path).read_text(encoding="utf-8").strip()
    if len(secret.splitlines()) > 1:
        raise ValueError("it has several lines, and a secret is one")
    return secret


def with_password(url: str, password: str) -> str:
    """The URL of Redis, ``SCHEME://[USER@]...``, with this password.

    Raises:
        ValueError: the URL already has a password.
    """
    scheme, _, rest = url.partition("://")
    login, _, place = rest.rpartition("@")
    if ":" in login:
        raise ValueError("has a password, and FLASHSALE_REDIS_PASSWORD gives another: leave one out")
    return f"{scheme}://{login}:{quote(password, safe='')}@{place}"
