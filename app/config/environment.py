"""Read ``FLASHSALE_*`` one by one, and raise all problems as one `SettingsError`."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import Field, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from app.contract.credentials import read_secret

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

    def secret(self, name: str) -> str | None:
        """A secret from the variable of that name, or else from the file that ``NAME_FILE`` names."""
        return self(name, str, None, is_secret=True) or self(f"{name}_FILE", secret_file, None)

    def problem(self, name: str, text: str) -> None:
        """Note that ``FLASHSALE_NAME`` does not fit the other settings."""
        self._problems.setdefault(name, f"FLASHSALE_{name} {text}")

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


def matching(pattern: str, advice: str) -> Callable[[str], str]:
    """A text that matches the whole `pattern`; or else the problem is `advice`."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(advice)
        return text

    return parse


def several(pattern: str, advice: str) -> Callable[[str], tuple[str, ...]]:
    """The same for texts separated by commas, in lower case and without a slash at the end."""
    one = matching(pattern, advice)
    return lambda text: tuple(one(part.strip().rstrip("/").lower()) for part in text.split(","))


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


def secret_file(text: str) -> str:
    """The secret in a file, as Docker and Kubernetes hand it over, without the blanks around it."""
    try:
        secret = read_secret(text)
    except (OSError, ValueError) as error:
        raise ValueError(f"give a text file that can be read ({error})") from error
    if not secret:
        raise ValueError("give a file that is not empty")
    return secret


def authority(text: str) -> str:
    """The path of a PEM file with the certificates of one authority or more."""
    try:
        ssl.create_default_context(cafile=text)
    except OSError as error:
        raise ValueError(f"give a PEM file with the authority's certificate ({error})") from error
    return text


def check_pair(certificate: str, key: str) -> None:
    """See that both are PEM files that belong together; raises ValueError."""
    try:
        # A key with a passphrase is refused: OpenSSL would ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ValueError(f"give PEM files of a certificate and its key, without a passphrase ({error})") from error


_PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"  # 1 to 65535
_NODE = rf"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:{_PORT})?"
_ENDPOINT = rf"\s*(https?://)?[^\s/,]+:{_PORT}/?\s*"
_REDIS = rf"rediss?://([^\s/]*@)?{_NODE}(/[0-9]*)?(\?.*)?|rediss?\+cluster://([^\s/]*@)?{_NODE}(,{_NODE})*(\?.*)?"
_REDIS_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers")
_URLS = "give URLs separated by commas, such as http://127.0.0.1:8080,http://127.0.0.1:8090"

identifier = matching(
    r"[A-Za-z0-9._-]{1,64}", "give at most 64 letters, digits, dots, dashes and underscores, such as demo"
)
endpoints = matching(
    rf"{_ENDPOINT}(,{_ENDPOINT})*",
    "give HOST:PORT, or several separated by commas, such as 127.0.0.1:2379",
)
http_urls = several(rf"https?://{_NODE}", _URLS)
# dns+http://NAME:PORT is a URL for each address that the name has.
service_urls = several(rf"(dns\+http|https?)://{_NODE}", _URLS)
host_names = several(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?",
    "give host names without scheme and port, separated by commas, such as board.example",
)


def redis_url(text: str) -> str:
    """The address of Redis, or of some nodes of a cluster, without options that change deadlines or retries."""
    if not re.fullmatch(_REDIS, text):
        raise ValueError("give a URL such as redis://127.0.0.1:6379/0, or redis+cluster://HOST:PORT,HOST:PORT")
    options = dict(parse_qsl(text.partition("?")[2], keep_blank_values=True))
    for option in options:
        # redis-py lets the query overrule the caller, and a retry it adds could sell one item twice.
        if option not in _REDIS_TLS or not text.startswith("rediss"):
            raise ValueError(f"leave out '{option}=': rediss:// takes {', '.join(_REDIS_TLS)}, and all else is fixed")
    try:
        if "ssl_ca_certs" in options:
            authority(options["ssl_ca_certs"])
        if "ssl_certfile" in options:
            check_pair(options["ssl_certfile"], options.get("ssl_keyfile", options["ssl_certfile"]))
    except ValueError as problem:
        raise ValueError(f"for ssl_ca_certs=, ssl_certfile= and ssl_keyfile= {problem}") from problem
    return text
