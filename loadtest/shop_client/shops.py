"""The instances as the rush sees them over HTTP: what any of them may answer for all, and what each is asked itself."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import click

from app.contract.addresses import addresses_of
from loadtest.results.answer import detail_of

TIMEOUT_S = 10.0
LOOK_S = 0.2
_IDLE_TIMEOUT_S = 130.0  # two of the longest think times: more buyers than threads come in turns
_ADDRESSES = "each as http://HOST:PORT, separated by commas"
_FRESH_S = 2.0  # so long the addresses of a name are believed
RESET = "/stock/reset"
_JSON = {"Content-Type": "application/json"}
UNANSWERED = (OSError, ValueError, HTTPException)
_IN_PROGRESS = re.compile(r"^flashsale_purchases_in_progress (\S+)$", re.MULTILINE)


class SaleError(click.ClickException):
    """The sale cannot be set up or read; the message is one line that says what to do."""


class Shops:
    """Several instances that sell from one stock.

    Args:
        hosts: their base URLs, as `hosts_of` gives them.
        admin_token: sent only with what needs it, and only to `trusted`.
        trusted: those that may be told the token; all of `hosts` if not given.
    """

    def __init__(self, hosts: Sequence[str], *, admin_token: str = "", trusted: Container[str] | None = None) -> None:
        self._hosts = hosts
        self._admin_token = admin_token
        self._trusted = hosts if trusted is None else trusted

    def reset(self, stock: int) -> None:
        """Open the sale anew with `stock` items; raises SaleError."""
        self.ask("POST", RESET, {"stock": stock}, as_admin=True)

    def promises(self) -> dict[str, str]:
        """What each guard promises, by its name, in the order in which they are shown; raises SaleError."""
        try:
            return {guard["name"]: guard["promise"] for guard in self.ask("GET", "/guards")["guards"]}
        except (KeyError, TypeError) as error:
            raise SaleError(f"{' or '.join(self._hosts)} is not a shop, or an old one: it lists no guards.") from error

    def require_guards(self, guards: Sequence[str]) -> dict[str, str]:
        """The promises of these guards; raises SaleError if the shop has not all of them."""
        promises = self.promises()
        if unknown := [guard for guard in guards if guard not in promises]:
            raise SaleError(f"The shop has no guard {unknown[0]}: choose from {', '.join(promises)}.")
        return {guard: promises[guard] for guard in guards}

    def ask(self, method: str, path: str, body: Any = None, *, as_admin: bool = False) -> Any:
        """The JSON answer of the first instance that answers; raises SaleError."""
        data = None if body is None else json.dumps(body).encode()
        for configured, host in [(each, host) for each in self._hosts for host in find([each])]:
            headers = dict(_JSON)
            # The token is for hosts that were configured, not for one typed into a form.
            if as_admin and self._admin_token and configured in self._trusted:
                headers["Authorization"] = f"Bearer {self._admin_token}"
            try:
                return get_json(urllib.request.Request(host + path, data, headers, method=method))
            except urllib.error.HTTPError as error:
                with error:
                    told = detail_of(error.read()) or f"{error.code} {error.reason}"
                raise SaleError(f"{method} {host}{path} was refused: {told}") from error
            except UNANSWERED:
                continue
        raise SaleError(
            f"No shop answers at {' or '.join(self._hosts)}: start it with make up or docker compose up --wait, "
            f"or name its addresses with --host, {_ADDRESSES}."
        )

    def instances(self) -> dict[str, str]:
        """When each instance began, by its address; one that does not answer is left out."""
        began = dict[str, str]()
        for host in find(self._hosts):
            with suppress(*UNANSWERED, KeyError):
                began[host] = get_json(f"{host}/livez")["started"]
        return began

    def until_idle(self, *, timeout: float = _IDLE_TIMEOUT_S, ignore_dead: bool = False) -> Iterator[int]:
        """Wait until no instance has a purchase in progress: it may still sell.

        Yields how many there are, again and again while there are any, for `timeout` seconds at most.

        Raises:
            SaleError: purchases do not end, or an instance does not answer, unless with `ignore_dead`.
        """

        def count(host: str) -> int:
            with suppress(*([SaleError] if ignore_dead else [])):
                return in_progress(host)
            return 0

        deadline = time.monotonic() + timeout
        while busy := {host: purchases for host in find(self._hosts) if (purchases := count(host))}:
            if time.monotonic() > deadline:
                told = " and ".join(f"{host} ({purchases})" for host, purchases in busy.items())
                raise SaleError(
                    f"Purchases have not ended within {timeout:g} s at {told}: "
                    "wait until they are over, or restart that instance."
                )
            yield sum(busy.values())
            time.sleep(LOOK_S)


def in_progress(host: str) -> int:
    """How many purchases an instance has begun and not ended; raises SaleError."""
    try:
        found = _IN_PROGRESS.search(_get(f"{host}/metrics").decode())
    except TimeoutError:
        return 1  # or more: no thread is left there to answer
    except UNANSWERED as error:
        raise SaleError(
            f"The shop at {host} does not answer ({error}): start it, or leave it out of --host."
        ) from error
    if not found:
        raise SaleError(f"{host} is not a shop, or an old one: its /metrics lack the purchases in progress.")
    return int(float(found[1]))


def find(hosts: Sequence[str]) -> list[str]:
    """The base URL of each instance: of ``dns+http://NAME:PORT``, one for each address that the name has now.

    Raises:
        SaleError: a name has no address.
    """
    moment = int(time.monotonic() / _FRESH_S)
    return list(dict.fromkeys(url for host in hosts for url in _addresses(host, moment)))


@lru_cache(maxsize=8)  # each of thousands of buyers asks
def _addresses(url: str, moment: int) -> list[str]:
    try:
        return addresses_of(url)
    except OSError as error:
        name = urlsplit(url).hostname
        raise SaleError(f"No instance is known by the name {name} ({error}): start them first.") from error


def hosts_of(text: str) -> list[str]:
    """Base URLs from a list with commas; ``http://`` may be left out. Raises SaleError.

    One of them may be ``dns+http://NAME:PORT``, see `find`.
    """
    hosts = [host.strip() for host in text.split(",") if host.strip()]
    urls = [(host if "://" in host else f"http://{host}").rstrip("/") for host in hosts]
    if not urls or not all(map(_is_address, urls)):
        raise SaleError(f"{text!r} are not addresses of shops: give {_ADDRESSES}.")
    return urls


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https", "dns+http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """A redirect is an answer: following it would hand headers to another host."""


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def get_json(request: urllib.request.Request | str) -> Any:
    """What is at this address, without proxies or redirects; raises one of `UNANSWERED`."""
    return json.loads(_get(request))


def _get(request: urllib.request.Request | str) -> bytes:
    with _direct.open(request, timeout=TIMEOUT_S) as response:
        return bytes(response.read())
