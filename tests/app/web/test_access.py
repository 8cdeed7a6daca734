"""Access to shop and board: by known host names, from their own pages, and by the administrator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr

from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings

Clients = dict[str, FlaskClient]
Serve = Callable[..., Clients]
RESET = {"shop": "/stock/reset", "board": "/control/reset"}
CHANGES = {
    "shop": [RESET["shop"], "/stock/reduce?guard=none"],
    "board": [RESET["board"], "/control/rush", "/control/instance"],
}
READS = {
    "shop": ["/stock", "/guards", "/lock", "/nowhere"],
    "board": ["/", "/events", "/setup", "/static/main.js", "/nowhere"],
}
ADDRESSES = ["localhost:8080", "LocalHost", "127.0.0.1:8080", "[::1]:8080", "192.168.1.20:8070", "[fe80::1]"]
STRANGERS = ["evil.example:8070", "localhost.evil.example", "127.0.0.1.nip.example", "", "[", "localhost/x"]
STRANGERS += ["x@localhost"]
ORIGIN = "http://localhost"
OTHER_PAGES = [
    *({"Origin": origin} for origin in ("https://evil.example", "null", "http://[", f"{ORIGIN}:9999")),
    {"Origin": f"{ORIGIN}.evil.example"},
    *({"Sec-Fetch-Site": site} | origin for site in ("cross-site", "same-site") for origin in ({}, {"Origin": ORIGIN})),
]
WRONG_TOKENS = [None, "", "Bearer", "Bearer wrong", "tökén", "Basic dXNlcjp0w7Zrw6lu"]
each_server = pytest.mark.parametrize("server", ["shop", "board"])


@pytest.fixture
def serve(settings: Settings, make: Callable[..., Flask]) -> Serve:
    """Makes clients of a shop and a board that listen at `host`, and have names."""

    def serve(token: str | None = None, *, host: str = "127.0.0.1") -> Clients:
        secret = SecretStr(token) if token else None
        shop = make(host=host, admin_token=secret, names=("shop.example",))
        sale = settings.model_copy(update={"admin_token": secret})
        board = create_board(BoardSettings(host=host, shop=sale, names=("board.example",)))
        return {"shop": shop.test_client(), "board": board.test_client()}

    return serve


@pytest.fixture
def clients(serve: Serve) -> Clients:
    """Those of servers on loopback without a token."""
    return serve()


def stock(clients: Clients) -> tuple[int, int]:
    """What was for sale, and what is left of it."""
    sale = clients["shop"].get("/stock").get_json()
    return sale["initial"], sale["stock"]


@each_server
def test_an_unknown_host_name_is_refused(serve: Serve, server: str) -> None:
    """No route serves an unknown host name, token or not: with DNS rebinding, another site looks like an own page."""
    token = "s3cret"
    clients = serve(token)
    routes = [("POST", path) for path in CHANGES[server]] + [("GET", path) for path in READS[server]]
    for host in STRANGERS:
        headers = {"Host": host, "Origin": f"http://{host}", "Authorization": f"Bearer {token}"}
        for method, path in routes:
            answer = clients[server].open(path, method=method, headers=headers)
            assert (answer.status_code, answer.mimetype) == (403, "application/problem+json"), (host, path)
            assert "NAMES" in answer.get_json()["detail"]


def test_a_name_that_was_set_and_any_address_are_known(clients: Clients) -> None:
    """Every address is known, and names that are set; monitoring may use any name."""
    for server, path, name in (("shop", "/guards", "shop.example"), ("board", "/setup", "board.example:80")):
        for host in (name, *ADDRESSES):
            assert clients[server].get(path, headers={"Host": host}).status_code == 200, host
    for server, path in (("shop", "/livez"), ("shop", "/readyz"), ("shop", "/metrics"), ("board", "/livez")):
        assert clients[server].get(path, headers={"Host": "pod-7.example"}).status_code == 200, path


@each_server
def test_a_page_of_another_site_changes_nothing(clients: Clients, server: str) -> None:
    """What a browser sends for another site's page is a 403, whichever route it tries."""
    for headers in OTHER_PAGES:
        answers = [clients[server].post(path, json={"stock": 1}, headers=headers) for path in CHANGES[server]]
        assert [answer.status_code for answer in answers] == [403] * len(answers), headers
        assert all("Pages of other sites" in answer.get_json()["detail"] for answer in answers)
    assert stock(clients) == (10, 10)


def test_the_board_is_for_its_own_page(clients: Clients) -> None:
    """Forms of other sites, which may hide their origin, are refused; so are streams, but not a link to the page."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert clients["board"].post(RESET["board"], data='{"stock": 1}', content_type=kind).status_code == 415
    assert stock(clients) == (10, 10)
    headers = {"Sec-Fetch-Site": "cross-site"}
    statuses = [clients["board"].get(path, headers=headers).status_code for path in ("/events", "/runs/etcd", "/")]
    assert statuses == [403, 403, 200]


def test_a_page_behind_a_forwarded_port_is_the_boards_own(clients: Clients) -> None:
    """A tool that forwards a port rewrites the host; its name counts where it was set, whole and without a port."""
    reset = RESET["board"]
    statuses = {"https://board.example": 200, "https://board.example:81": 403, "https://a.example": 403}
    for origin, status in statuses.items():
        headers = {"Host": "localhost:8070", "Origin": origin, "Sec-Fetch-Site": "same-origin"}
        assert clients["board"].post(reset, json={"stock": 3}, headers=headers).status_code == status, origin
    headers = {"Origin": "https://board.example", "Sec-Fetch-Site": "cross-site"}
    assert clients["board"].post(reset, json={"stock": 3}, headers=headers).status_code == 403


@each_server
def test_beyond_loopback_a_reset_needs_the_token(serve: Serve, server: str) -> None:
    """Without the right token it is a 401 that says how to send it; buying and looking need none."""
    clients = serve("tökén", host="0.0.0.0")
    for header in WRONG_TOKENS:
        for path in CHANGES["board"] if server == "board" else [RESET["shop"]]:
            headers = {} if header is None else {"Authorization": header}
            answer = clients[server].post(path, json={}, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"].lower().startswith("bearer")
            assert "Bearer TOKEN" in answer.get_json()["detail"]
    assert stock(clients) == (10, 10)
    headers = {"Authorization": "Bearer tökén".encode().decode("latin-1")}
    assert clients[server].post(RESET[server], json={"stock": 3}, headers=headers).status_code == 200
    assert clients["shop"].post("/stock/reduce?guard=none").status_code == 200
    assert stock(clients) == (3, 2)
    assert clients["board"].get("/setup").get_json()["token_needed"] is True


@each_server
def test_beyond_loopback_without_a_token_there_is_no_reset(serve: Serve, server: str) -> None:
    """If no token is set, the 403 names the variable to set."""
    clients = serve(host="0.0.0.0")
    for headers in ({}, {"Authorization": "Bearer "}):
        answer = clients[server].post(RESET[server], json={}, headers=headers)
        assert answer.status_code == 403
        assert "FLASHSALE_ADMIN_TOKEN" in answer.get_json()["detail"]
