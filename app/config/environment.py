"""Settings from ``FLASHSALE_*``: a base class for those of the shop, the board and the labs, and types of settings."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails, MultiHostUrl
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.contract.credentials import read_secret

if TYPE_CHECKING:
    from typing_extensions import Self


class SettingsError(ValueError):
    """Environment variables with unusable values. Each line names one and says what to give; no line shows a value."""


class EnvironmentSettings(BaseSettings):
    """Settings that are read from the environment and checked, then frozen.

    A field ``port`` is read from ``FLASHSALE_PORT``; a variable that is unset or blank has its default. A lab with more
    settings has its own subclass.
    """

    model_config = SettingsConfigDict(
        env_prefix="FLASHSALE_",
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, values: dict[str, Any]) -> dict[str, Any]:
        stripped = {name: value.strip() if isinstance(value, str) else value for name, value in values.items()}
        return {name: value for name, value in stripped.items() if value != ""}

    @classmethod
    def from_environment(cls) -> Self:
        """Read the variables.

        Raises:
            SettingsError: the value of at least one is unusable.
        """
        try:
            return cls()
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
        # A default that is computed from an invalid setting fails as well: report the setting alone.
        lines = [cls._line(each) for each in problems if each["type"] != "default_factory_not_called"]
        raise SettingsError("\n".join(lines))

    @classmethod
    def _line(cls, problem: ErrorDetails) -> str:
        text = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            return text
        name = str(problem["loc"][0])
        prefix = cls.model_config["env_prefix"]
        return f"{name if name.isupper() else prefix + name.upper()}: {text}"  # with an alias, it is that


def matching(pattern: str, advice: str) -> AfterValidator:
    """A validator of texts that match the whole `pattern`; its message for others is `advice`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(advice)
        return text

    return AfterValidator(check)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _label(text: str) -> str:
    if len(text) > 64 or not text.isprintable():
        raise ValueError("give a name of at most 64 printable characters, such as shop-a")
    return text


def _secret_in(path: str | SecretStr | None) -> SecretStr | None:
    if path is None or isinstance(path, SecretStr):
        return path
    try:
        secret = read_secret(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"give a text file that can be read ({error})") from error
    if not secret:
        raise ValueError("give a file that is not empty")
    return SecretStr(secret)


def _authority(path: str) -> str:
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ValueError(f"give a PEM file with the authority's certificate ({error})") from error
    return path


def check_pair(certificate: str, key: str) -> None:
    """Check that both are PEM files and belong together; raises ValueError."""
    try:
        # A key with a passphrase is refused: OpenSSL would ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ValueError(f"give PEM files of a certificate and its key, without a passphrase ({error})") from error


def _has_address(url: str, *schemes: str, needs_port: bool = False) -> bool:
    """Whether the URL is ``SCHEME://HOST[:PORT][/]``."""
    try:
        scheme, place, path, query, fragment = urlsplit(url)
        host, port = urlsplit(url).hostname, urlsplit(url).port
    except ValueError:
        return False
    is_bare = path in ("", "/") and not (query or fragment or re.search(r"[@\s]|:$", place))
    return scheme in schemes and bool(host) and is_bare and (not needs_port if port is None else port > 0)


def _base_url(*schemes: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not _has_address(text, *schemes):
            raise ValueError("give a URL such as http://127.0.0.1:8080, or several separated by commas where many are")
        return text.lower().rstrip("/")

    return check


def _endpoints(text: str) -> str:
    for each in text.split(","):
        url = each.strip() if "://" in each else f"http://{each.strip()}"
        if not _has_address(url, "http", "https", needs_port=True):
            raise ValueError("give HOST:PORT, or several separated by commas, such as 127.0.0.1:2379")
    return text


REDIS_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers")


def _redis_url(text: str) -> str:
    """The address of Redis, without options that change deadlines or retries."""
    advice = "give a URL such as redis://127.0.0.1:6379/0"
    try:
        url = MultiHostUrl(text)
    except ValueError:
        raise ValueError(advice) from None  # pydantic's own error has the password
    if url.scheme not in ("redis", "rediss") or len(url.hosts()) != 1 or not re.fullmatch(r"(/\d*)?", url.path or ""):
        raise ValueError(advice)
    options = dict(parse_qsl(url.query or "", keep_blank_values=True))
    for option in options:
        # redis-py lets the query override the caller's arguments: a retry added there could sell an item twice.
        if option not in REDIS_TLS or not url.scheme.startswith("rediss"):
            raise ValueError(f"leave out '{option}=': rediss:// takes {', '.join(REDIS_TLS)}, and all else is fixed")
    try:
        if "ssl_ca_certs" in options:
            _authority(options["ssl_ca_certs"])
        if "ssl_certfile" in options:
            check_pair(options["ssl_certfile"], options.get("ssl_keyfile", options["ssl_certfile"]))
    except ValueError as problem:
        raise ValueError(f"for ssl_ca_certs=, ssl_certfile= and ssl_keyfile= {problem}") from problem
    return text


def _split(text: Any) -> Any:
    return tuple(part.strip() for part in text.split(",")) if isinstance(text, str) else text


_ADDRESS = "give the address to listen on, such as 127.0.0.1 or 0.0.0.0, without scheme and port"
_IDENTIFIER = "give at most 64 letters, digits, dots, dashes and underscores, such as demo"
_HOST_NAMES = "give host names without scheme and port, separated by commas, such as board.example"
_LOWER = AfterValidator(str.lower)

Label = Annotated[str, AfterValidator(_label)]
Identifier = Annotated[str, matching(r"[A-Za-z0-9._-]{1,64}", _IDENTIFIER)]
Address = Annotated[str, matching(r"[A-Za-z0-9._:-]+", _ADDRESS), _LOWER]
HostName = Annotated[str, _LOWER, matching(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", _HOST_NAMES)]
HostNames = Annotated[tuple[HostName, ...], NoDecode, BeforeValidator(_split)]
HttpUrl = Annotated[str, AfterValidator(_base_url("http", "https"))]
# dns+http://NAME:PORT is a URL for each address that the name has.
ServiceUrl = Annotated[str, AfterValidator(_base_url("http", "https", "dns+http"))]
ServiceUrls = Annotated[tuple[ServiceUrl, ...], NoDecode, BeforeValidator(_split)]
Endpoints = Annotated[str, AfterValidator(_endpoints)]
Authority = Annotated[str, AfterValidator(_authority)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
SecretFile = Annotated[SecretStr, BeforeValidator(_secret_in)]
