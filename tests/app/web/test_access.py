"""Who may ask shop and board: known host names, own pages, the administrator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from app import create_app, services
from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings

ORIGIN = "http://localhost"
CHANGES = ["/stock/reset?stock=0", "/stock/reduce?guard=none", "/cart?items=1"]
SHOP_ROUTES = [
    ("POST", "/stock/reset"),
    ("POST", "/stock/reduce?guard=none"),
    ("POST", "/cart?items=1"),
    ("GET", "/stock"),
    ("GET", "/guards"),
    ("GET", "/lock"),
    ("GET", "/nowhere"),
]
BOARD_ROUTES = [("GET", path) for path in ("/", "/events", "/setup", "/static/main.js", "/nowhere")]
ROUTES = {"shop": SHOP_ROUTES, "board": [*BOARD_ROUTES, ("POST", "/control/reset")]}
ADDRESSES = ["localhost:8080", "LocalHost", "127.0.0.1:8080", "[::1]:8080", "192.168.1.20:8070", "[fe80::1]"]
STRANGERS = [
    "evil.example:8070",
    "localhost.evil.example",
    "127.0.0.1.nip.example",
    "",
    "[",
    "localhost/x",
    "x@localhost",
]


@pytest.fixture(params=[None, "s3cret"], ids=["no token", "token"])
def token(request: pytest.FixtureRequest) -> str | None:
    """The administrator's token, if one is set."""
    token: str | None = request.param
    return token


@pytest.fixture
def shop(settings: Settings, token: str | None) -> Iterator[FlaskClient]:
    """A client of the shop, which is also known as shop.example."""
    app = create_app(replace(settings, names=("shop.example",), admin_token=token))
    yield app.test_client()
    services.of(app).close()


@pytest.fixture
def board(settings: Settings, token: str | None) -> FlaskClient:
    """A client of the board, which is also known as board.example."""
    return create_board(
        BoardSettings(shop=replace(settings, admin_token=token), names=("board.example",))
    ).test_client()


@pytest.fixture
def clients(shop: FlaskClient, board: FlaskClient) -> dict[str, FlaskClient]:
    """Clients of both."""
    return {"shop": shop, "board": board}


@pytest.mark.parametrize("server", ["shop", "board"])
@pytest.mark.parametrize("host", STRANGERS)
def test_an_unknown_host_name_is_refused(
    clients: dict[str, FlaskClient], token: str | None, server: str, host: str
) -> None:
    """With DNS rebinding, a page of another site looks like an own page: no route serves it, token or not."""
    headers = {"Host": host, "Origin": f"http://{host}", "Authorization": f"Bearer {token}"}
    for method, path in ROUTES[server]:
        answer = clients[server].open(path, method=method, headers=headers)
        assert (answer.status_code, answer.mimetype) == (403, "application/problem+json"), path
        assert "NAMES" in answer.get_json()["detail"]


@pytest.mark.parametrize(("server", "name"), [("shop", "shop.example"), ("board", "board.example:80")])
def test_a_name_that_was_set_and_any_address_are_known(clients: dict[str, FlaskClient], server: str, name: str) -> None:
    """An address cannot be made to point elsewhere."""
    path = {"shop": "/guards", "board": "/setup"}[server]
    for host in (name, *ADDRESSES):
        assert clients[server].get(path, headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    ("server", "path"), [("shop", "/livez"), ("shop", "/readyz"), ("shop", "/metrics"), ("board", "/livez")]
)
def test_probes_answer_to_any_name(clients: dict[str, FlaskClient], server: str, path: str) -> None:
    """Monitoring asks by names that nobody has set."""
    assert clients[server].get(path, headers={"Host": "pod-7.example"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": ORIGIN},
    ],
)
def test_a_page_of_another_site_changes_nothing(browser: FlaskClient, headers: dict[str, str]) -> None:
    """What a browser sends for another site's page is a 403, and the sale stays as it was."""
    answers = [browser.post(change, headers=headers) for change in CHANGES]
    assert [answer.status_code for answer in answers] == [403] * len(CHANGES)
    assert all("Pages of other sites" in answer.get_json()["detail"] for answer in answers)
    sale = browser.get("/stock").get_json()
    assert (sale["stock"], sale["orders"]) == (10, 0)


@pytest.mark.parametrize("headers", [{}, {"Origin": ORIGIN}, {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}])
def test_programs_and_own_pages_may(browser: FlaskClient, headers: dict[str, str]) -> None:
    """A program sends no origin, and a page of the same address sends the same address."""
    assert [browser.post(change, headers=headers).status_code for change in CHANGES] == [200, 409, 409]


@pytest.fixture
def public(settings: Settings) -> Iterator[FlaskClient]:
    """An instance that other machines can reach, with a token."""
    app = create_app(replace(settings, host="0.0.0.0", admin_token="tökén"))
    yield app.test_client()
    services.of(app).close()


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "tökén", "Basic dXNlcjp0w7Zrw6lu"])
def test_a_reset_needs_the_token(public: FlaskClient, header: str | None) -> None:
    """Beyond loopback, a reset without the right token is a 401 that says how to send it."""
    answer = public.post("/stock/reset", headers={} if header is None else {"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].lower().startswith("bearer")
    assert "Bearer TOKEN" in answer.get_json()["detail"]


def test_the_right_token_resets(public: FlaskClient) -> None:
    """With the token the sale is reset, and buying never needs one."""
    headers = {"Authorization": "Bearer tökén".encode().decode("latin-1")}
    assert public.post("/stock/reset", headers=headers).status_code == 200
    assert public.post("/stock/reduce?guard=none").status_code == 200


@pytest.mark.parametrize("token", ["a=b", "a=b, c", "two words", "YWJj=="])
def test_a_token_may_have_any_characters(shop: FlaskClient, token: str) -> None:
    """A token that looks like parameters to HTTP is a token like any other."""
    answers = [
        shop.post("/stock/reset", headers={"Authorization": f"{scheme} {sent}"}).status_code
        for scheme, sent in (("Bearer", token), ("bearer", token), ("Bearer", token[:-1]), ("Basic", token))
    ]
    assert answers == [200, 200, 401, 401]


def test_a_reset_from_outside_needs_a_token_to_be_set(settings: Settings) -> None:
    """Beyond loopback and without a token, a reset is a 403 that names the variable to set."""
    app = create_app(replace(settings, host="0.0.0.0"))
    answer = app.test_client().post("/stock/reset")
    services.of(app).close()
    assert answer.status_code == 403
    assert "FLASHSALE_ADMIN_TOKEN" in answer.get_json()["detail"]
