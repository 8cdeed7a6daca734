"""The instances as the rush sees them over HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from loadtest.shop_client import shops
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import SaleError, find, hosts_of


class Names:
    """A resolver: it knows the addresses of one name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **addresses: Sequence[str]) -> None:
        self._addresses = {name.replace("_", "."): each for name, each in addresses.items()}
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)
        shops._addresses.cache_clear()

    def _answer(self, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host not in self._addresses:
            raise socket.gaierror("Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in self._addresses[host]]


def test_instances_are_found_by_the_name_of_their_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each address of the name is one instance, and is looked up again; one without an address is told in one line.

    Blanks and slashes at the end do not matter, and http is understood.
    """
    hosts = hosts_of("dns+http://tasks.shop:8080/, b:1")
    Names(monkeypatch, tasks_shop=["10.0.1.9", "10.0.1.4", "10.0.1.4", "fd00::4"])
    assert find(hosts) == ["http://10.0.1.4:8080", "http://10.0.1.9:8080", "http://[fd00::4]:8080", "http://b:1"]
    moment = time.monotonic()
    Names(monkeypatch)
    monkeypatch.setattr(time, "monotonic", lambda: moment + 2 * shops._FRESH_S)
    with pytest.raises(SaleError, match=r"No instance is known by the name tasks.shop \(Name or service not known\)"):
        find(hosts)


def test_the_token_goes_to_all_instances_of_a_trusted_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And to none of another name, even where it leads to the same address.

    It may be in the instances' own file; the rush says so where it cannot be read.
    """
    Names(monkeypatch, ours=["127.0.0.1"], other=["127.0.0.1"])
    sent: list[str | None] = []
    monkeypatch.setattr(shops, "get_json", lambda request: sent.append(request.get_header("Authorization")))
    monkeypatch.delenv("FLASHSALE_ADMIN_TOKEN", raising=False)
    monkeypatch.setenv("FLASHSALE_ADMIN_TOKEN_FILE", str(tmp_path / "token"))
    ours, other = "dns+http://ours:80", "dns+http://other:80"
    with pytest.raises(SaleError, match=r"FLASHSALE_ADMIN_TOKEN_FILE cannot be read .*: name the instances' file"):
        SaleClient.from_environment([ours], trusted=[ours])
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    for host in (ours, other):
        SaleClient.from_environment([host], trusted=[ours]).shops.reset(1)
    assert sent == ["Bearer s3cret", None]


@pytest.mark.parametrize("text", ["", ",", " , ", "http://", "ftp://a", "http://a:b", "http://a:99999", "http://[::1"])
def test_what_is_no_list_of_addresses_is_refused(text: str) -> None:
    """One line has the text and says what to give."""
    with pytest.raises(SaleError, match=r"are not addresses of shops: give each as http://HOST:PORT, separated by"):
        hosts_of(f"http://a:1,{text}" if text.strip(" ,") else text)
