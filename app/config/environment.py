"""Read ``FLASHSALE_*`` one by one, and raise all problems as one `SettingsError`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

T = TypeVar("T")
D = TypeVar("D")


class SettingsError(ValueError):
    """Environment variables that cannot be used: one line for each says what was given and what to give instead."""


def variable(parse: Callable[[str], T], default: D, *, is_secret: bool = False) -> Any:
    """A field of a dataclass that `Reader.field` reads from the variable of the same name."""
    return field(default=default, repr=not is_secret, metadata={"parse": parse})


class Reader:
    """Reads variables and collects their problems."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._problems: dict[str, str] = {}

    def field(self, each: Field[Any]) -> Any:
        return self(each.name.upper(), each.metadata["parse"], each.default, is_secret=not each.repr)

    def __call__(self, name: str, parse: Callable[[str], T], default: D, *, is_secret: bool = False) -> T | D:
        text = self._environment.get(f"FLASHSALE_{name}", "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as problem:
            shown = "(not shown)" if is_secret else repr(text)
            self._problems[name] = f"FLASHSALE_{name} is {shown}: {problem}"
            return default

    def raise_problems(self) -> None:
        if self._problems:
            raise SettingsError("\n".join(self._problems.values()))


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise ValueError(f"give a whole number from {least} to {most}")
        return int(text)

    return parse


def choice(*valid: str) -> Callable[[str], str]:
    """One of the `valid` words."""

    def parse(text: str) -> str:
        if text not in valid:
            raise ValueError(f"give {' or '.join(valid)}")
        return text

    return parse


def seconds(text: str) -> float:
    """A length of time, at most an hour."""
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", text) or not 0.1 <= float(text) <= 3600:
        raise ValueError("give seconds from 0.1 to 3600, such as 10 or 2.5")
    return float(text)


def address(text: str) -> str:
    """The address to listen on: an IP address or a host name, in lower case."""
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", text):
        raise ValueError("give the address to listen on, such as 127.0.0.1 or 0.0.0.0, without scheme and port")
    return text.lower()


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def label(text: str) -> str:
    """A name for people."""
    if len(text) > 64 or not text.isprintable():
        raise ValueError("give a name of at most 64 printable characters, such as shop-a")
    return text


def identifier(text: str) -> str:
    """A name for keys."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise ValueError("give at most 64 letters, digits, dots, dashes and underscores, such as demo")
    return text


def secret_file(text: str) -> str:
    """The secret in a file, as Docker and Kubernetes hand it over, without the blanks around it."""
    try:
        secret = Path(text).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ValueError(f"give a text file that can be read ({error})") from error
    if not secret:
        raise ValueError("give a file that is not empty")
    return secret


def endpoints(text: str) -> str:
    """Addresses of etcd, without TLS."""
    for endpoint in text.split(","):
        if "https://" in endpoint:
            raise ValueError("give addresses without https://, because the shop does not speak TLS to etcd")
        found = re.fullmatch(r"\s*(?:http://)?[^\s/]+:([0-9]{1,5})/?\s*", endpoint)
        if found is None or not 1 <= int(found[1]) <= 65535:
            raise ValueError("give HOST:PORT, or several separated by commas, such as 127.0.0.1:2379")
    return text


def redis_url(text: str) -> str:
    """The address of Redis, or of some nodes of a cluster, without options that change deadlines or retries."""
    scheme, _, nodes = text.partition("+cluster://")
    for url in map(_split, [f"{scheme}://{node}" for node in nodes.split(",")] if nodes else [text]):
        if url.scheme not in ("redis", "rediss") and (nodes or url.scheme != "unix"):
            raise ValueError("give a URL such as redis://127.0.0.1:6379/0, or redis+cluster://HOST:PORT,HOST:PORT")
        if nodes and (url.path or not url.hostname):
            raise ValueError("give nodes of the cluster, such as redis+cluster://10.0.0.1:6379,10.0.0.2:6379")
        if url.scheme != "unix" and not re.fullmatch(r"(/[0-9]*)?", url.path):
            raise ValueError("end it with the number of a database, as in redis://127.0.0.1:6379/0")
        # redis-py lets the query overrule the caller, and a retry it adds could sell one item twice.
        for option, _ in parse_qsl(url.query, keep_blank_values=True):
            if not option.startswith("ssl_"):
                raise ValueError(f"leave out '{option}=': deadlines and retries are fixed, only ssl_* is taken")
    return text


def http_urls(text: str) -> tuple[str, ...]:
    """Base URLs, separated by commas."""
    urls = tuple(part.strip().rstrip("/") for part in text.split(","))
    if not all(re.fullmatch(r"https?://[A-Za-z0-9._\[\]:-]+", url) and _split(url) for url in urls):
        raise ValueError("give URLs separated by commas, such as http://127.0.0.1:8080,http://127.0.0.1:8090")
    return urls


def service_urls(text: str) -> tuple[str, ...]:
    """The same, of which some may be ``dns+http://NAME:PORT``: a URL for each address that the name has."""
    urls = tuple(part.strip().rstrip("/") for part in text.split(","))
    http_urls(",".join(url.removeprefix("dns+") if url.startswith("dns+http:") else url for url in urls))
    return urls


def host_names(text: str) -> tuple[str, ...]:
    """Names of this machine, separated by commas."""
    names = tuple(part.strip().lower() for part in text.split(","))
    if not all(re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name) for name in names):
        raise ValueError("give host names without scheme and port, separated by commas, such as board.example")
    return names


def _split(text: str) -> SplitResult:
    """The parts of a URL with a valid port, or without one."""
    url = urlsplit(text)
    with suppress(ValueError):  # the port is not a number, or too large
        if url.port != 0:
            return url
    raise ValueError("give a port from 1 to 65535")
