"""The sale over HTTP: answers, parameters, idempotency, reset, probes and errors; and who may do what."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr

from app import services
from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings
from app.guards import guards
from app.sales.sale import Sale
from loadtest.ports import free_port
from tests.support.shops import WAIT_S, buy, ledger, queue_behind, refused

Make = Callable[..., Flask]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"items": 3})


@pytest.mark.parametrize("buyer", ['ä☃\U0001f6d2"}{<b>&amp;a\x00b'.ljust(200, "x"), " "])
def test_parameters_may_be_json(browser: FlaskClient, sale: Sale, buyer: str) -> None:
    """Some may be in the query, others in the body; whatever a buyer's name is, the ledger has exactly that."""
    for _ in range(2):
        answer = browser.post("/stock/reduce?hold_ms=1", json={"buyer": buyer}, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.get_json()["guard"]) == (200, "etcd")  # the default
    assert browser.post("/stock/reduce?buyer=bob", json={"guard": "none"}).get_json()["guard"] == "none"
    assert [entry["buyer"] for entry in ledger(sale)] == [buyer, "bob"]


def test_stock_tells_what_is_left_and_sold(browser: FlaskClient) -> None:
    """GET /stock shows counter, ledger and verdict; a reset answers the same, to 3, 3.0, or as the settings say."""
    browser.post("/stock/reduce?guard=redis-lua")
    told = {"item": "1", "initial": 10, "stock": 9, "lucky": 1, "orders": 1, "lost_updates": 0}
    told |= {"verdict": "EXACT", "kind": "exact", "exact": True}
    assert browser.get("/stock").get_json() == {**told, "instance": "shop-a"}
    stocks = [browser.post("/stock/reset", json={"stock": stock}).get_json()["stock"] for stock in (3, 3.0)]
    stocks += [browser.post(f"/stock/reset{query}").get_json()["stock"] for query in ("?stock=4", "")]
    assert stocks == [3, 3, 4, 10]


def test_lock_shows_holder_and_waiters_in_order(
    app: Flask, browser: FlaskClient, crowd: ThreadPoolExecutor, settings: Settings
) -> None:
    """GET /lock lists holder and waiters of an item's mutex in order, with instance, token, age and TTL left."""
    name = f"flash-sale/{settings.sale}:2"
    mutex = services.of(app).sessions.mutex("2")
    with mutex.acquire(timeout=WAIT_S) as hold:
        waiting = queue_behind(mutex, crowd, app, "etcd", item=2)
        queue, free = (browser.get(f"/lock?item={item}").get_json() for item in (2, 1))
    assert waiting.result(WAIT_S)["status"] == 200
    assert (queue["name"], free["name"], free["holder"], free["waiters"]) == (name, name[:-2], None, [])
    holder, (waiter,) = queue["holder"], queue["waiters"]
    assert (holder["instance"], holder["token"], holder["key"]) == ("shop-a", hold.token, hold.key)
    assert waiter["token"] > holder["token"]
    assert 0 <= holder["age_s"] < 10
    assert 0 < holder["ttl_s"] <= settings.lease_ttl


BAD_QUERIES = [
    ("guard=nope", ", ".join(guards())),
    ("guard=", "give one of none"),
    ("hold_ms=-1", "whole number from 0 to 60000"),
    ("hold_ms=60001", "whole number from 0 to 60000"),
    ("hold_ms=1.5", "whole number"),
    ("hold_ms=", "whole number"),
    ("hold_ms=%D9%A3", "whole number"),
    ("hold_ms=" + "9" * 5000, "whole number"),
    ("buyer=", "1 to 200 characters"),
    ("buyer=" + "x" * 201, "1 to 200 characters"),
    ("gaurd=etcd", "no parameter 'gaurd' here: use guard, item, hold_ms, buyer"),
    ("ä" * 1000, "no parameter "),
]
NO_ITEM = "whole number from 1 to 3, as set by FLASHSALE_ITEMS."
TWICE = "Give each parameter once"
BAD_REQUESTS = [
    *((f"/stock/reduce?{query}", "", advice) for query, advice in BAD_QUERIES),
    *((f"/stock/reduce?item={item}", "", NO_ITEM) for item in ("0", "4", "-1", "x", "", "1,2", "1.0")),
    # Which of two values is meant?
    ("/stock/reduce?guard=none&guard=etcd", "", TWICE),
    ("/stock/reset?stock=1", '{"stock": 1}', TWICE),
    # Values of the wrong type, or beyond the bounds.
    *(("/stock/reset", f'{{"stock": {value}}}', "give a whole number from 0 to 1000000") for value in
      ('"abc"', "-1", "1.5", "true", "null", "NaN", "1e9", "1000001")),
    *(("/stock/reduce", f'{{"{member}": {value}}}', f"{member} is ") for member in ("buyer", "guard", "hold_ms")
      for value in ("true", "1.5", "null", "[]", "{}")),
    ("/stock/reduce", '{"buyer": "\\ud800"}', "1 to 200 characters"),
    ("/stock/reset", '{"stok": 3}', "no parameter 'stok' here: use stock"),
    # What is not a JSON object.
    *(("/stock/reset", body, "not a JSON object: send one such as") for body in
      ("{", "not json", "\xff", "[" * 5000, '{"stock": ' + "9" * 5000 + "}", "[300]", "300")),
]  # fmt: skip


def test_a_bad_request_says_what_to_give_and_changes_nothing(app: Flask, browser: FlaskClient) -> None:
    """A parameter or key that cannot be used is a 400 with short advice; the sale stays as it was."""
    browser.post("/stock/reduce?guard=none")
    for address, body, advice in BAD_REQUESTS:
        answer = browser.post(address, data=body.encode("latin-1"), content_type="application/json")
        assert (answer.status_code, answer.mimetype) == (400, "application/problem+json"), (address, body)
        assert advice in answer.get_json()["detail"]
        assert len(answer.get_json()["detail"]) < 200
    for path in ("/stock?item=4", "/lock?item=0"):
        assert NO_ITEM in browser.get(path).get_json()["detail"]
    for told in (buy(app, key=""), buy(app, key="x" * 201)):
        assert told["status"] == 400
        assert "Idempotency-Key" in told["detail"]
    assert browser.get("/stock").get_json()["orders"] == 1


def test_alive_and_ready(make: Make) -> None:
    """Without etcd the instance lives, is not ready, names what is missing, and sells nothing.

    With everything there, both answer 200 with the instance's name, whose letters are sent as they are.
    """
    app = make(etcd_endpoints=f"127.0.0.1:{free_port()}")
    browser = app.test_client()
    assert browser.get("/livez").status_code == 200
    ready = browser.get("/readyz")
    assert (ready.status_code, ready.mimetype) == (503, "application/problem+json")
    assert (ready.get_json()["detail"], ready.get_json()["redis"]) == ("Cannot be used: etcd.", "ok")
    for guard in ("etcd", "redis-watch", "redis-lua"):
        bought = buy(app, guard)
        assert re.search(r"[^.?][.?] Nothing was written; try again when etcd is back\.$", refused(bought))
        assert bought["title"] == "Unavailable"
    lock = browser.get("/lock")
    assert lock.status_code == 503
    assert lock.get_json()["detail"].endswith("is etcd running there? Try again in a moment.")
    name = "Köln ☃"
    browser = make(instance=name).test_client()
    alive = browser.get("/livez").get_json()
    assert datetime.fromisoformat(alive.pop("started")) <= datetime.now(timezone.utc)
    assert alive == {"status": "alive", "instance": name}
    assert f'"instance": "{name}"' in browser.get("/livez").text
    told = {"status": "ready", "etcd": "ok", "redis": "ok", "sale": "ok", "instance": name}
    assert browser.get("/readyz").get_json() == told


UNKNOWN = ["GET /", "GET /stock/", "POST /nothing/here"]
NOT_ALLOWED = ["GET /stock/reduce", "DELETE /stock", "OPTIONS /stock", "PUT /livez"]


def test_every_error_is_a_problem(app: Flask, browser: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong address or method says what there is instead.

    ``curl -d`` sends a form: it is a 415 with the command that was meant, unless that could end its quotation. An
    unexpected exception is a 500 without details, and is logged with its traceback.
    """

    def fail() -> str:
        raise RuntimeError("secret of the house")

    app.add_url_rule("/fail", view_func=fail)
    for request in [*UNKNOWN, *NOT_ALLOWED]:
        method, path = request.split()
        answer, status = browser.open(path, method=method), 404 if request in UNKNOWN else 405
        body = answer.get_json()
        assert (answer.status_code, answer.mimetype) == (status, "application/problem+json"), request
        assert (body["status"], body["type"], body["instance"]) == (status, "about:blank", "shop-a")
        hints = ["/stock/reduce"] if status == 404 else answer.headers["Allow"].split(", ")
        assert all(hint in body["detail"] for hint in hints)
    for form, query in (("stock=3", "stock=3"), ("stock='; reboot'", "NAME=VALUE")):
        answer = browser.post("/stock/reset", data=form, content_type="application/x-www-form-urlencoded")
        assert answer.status_code == 415
        assert answer.get_json()["detail"].endswith(f": curl -X POST 'http://localhost/stock/reset?{query}'")
        assert browser.get("/stock").get_json()["stock"] == 10
    answer = app.test_client().get("/fail")
    assert (answer.status_code, answer.mimetype) == (500, "application/problem+json")
    assert answer.get_json()["instance"] == "shop-a"
    assert "defect of the shop" in answer.get_json()["detail"]
    assert "secret" not in answer.text
    assert "secret of the house" in caplog.text


# Access to shop and board: by known host names, from their own pages, and by the administrator.


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


def test_an_unknown_host_name_is_refused(serve: Serve) -> None:
    """No route serves one, token or not: with DNS rebinding, another site looks like an own page.

    Every address is known, and names that are set; monitoring may use any name.
    """
    clients = serve(token := "s3cret")
    for server, client in clients.items():
        for host in STRANGERS:
            headers = {"Host": host, "Origin": f"http://{host}", "Authorization": f"Bearer {token}"}
            told = [client.post(path, headers=headers) for path in CHANGES[server]]
            for answer in [*told, *(client.get(path, headers=headers) for path in READS[server])]:
                assert (answer.status_code, answer.mimetype) == (403, "application/problem+json"), host
                assert "NAMES" in answer.get_json()["detail"]
    for server, path, name in (("shop", "/guards", "shop.example"), ("board", "/setup", "board.example:80")):
        for host in (name, *ADDRESSES):
            assert clients[server].get(path, headers={"Host": host}).status_code == 200, host
    for server, path in (("shop", "/livez"), ("shop", "/readyz"), ("shop", "/metrics"), ("board", "/livez")):
        assert clients[server].get(path, headers={"Host": "pod-7.example"}).status_code == 200, path


def test_a_page_of_another_site_changes_nothing(clients: Clients) -> None:
    """What a browser sends for another site's page is a 403, whichever route it tries.

    So are streams, but not a link to the board's page; its forms, which may hide their origin, are a 415.
    """
    requests = [(clients[server].post, path) for server, paths in CHANGES.items() for path in paths]
    for headers in OTHER_PAGES:
        for post, path in requests:
            answer = post(path, json={"stock": 1}, headers=headers)
            assert answer.status_code == 403, (path, headers)
            assert "Pages of other sites" in answer.get_json()["detail"]
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert clients["board"].post(RESET["board"], data='{"stock": 1}', content_type=kind).status_code == 415
    assert stock(clients) == (10, 10)
    headers = {"Sec-Fetch-Site": "cross-site"}
    statuses = [clients["board"].get(path, headers=headers).status_code for path in ("/events", "/runs/etcd", "/")]
    assert statuses == [403, 403, 200]


def test_a_page_behind_a_forwarded_port_is_the_boards_own(clients: Clients) -> None:
    """A tool that forwards a port rewrites the host; its name counts where it was set, whole and without a port."""
    for origin, site, status in (
        ("https://board.example", "same-origin", 200),
        ("https://board.example:81", "same-origin", 403),
        ("https://a.example", "same-origin", 403),
        ("https://board.example", "cross-site", 403),
    ):
        headers = {"Host": "localhost:8070", "Origin": origin, "Sec-Fetch-Site": site}
        assert clients["board"].post(RESET["board"], json={"stock": 3}, headers=headers).status_code == status, origin


def test_beyond_loopback_a_reset_needs_the_token(serve: Serve) -> None:
    """Without the right token it is a 401 that says how to send it; buying and looking need none.

    If no token is set, the 403 names the variable to set.
    """
    clients = serve("tökén", host="0.0.0.0")
    for server, path in (("shop", RESET["shop"]), *(("board", path) for path in CHANGES["board"])):
        for header in WRONG_TOKENS:
            headers = {} if header is None else {"Authorization": header}
            answer = clients[server].post(path, json={}, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"].lower().startswith("bearer")
            assert "Bearer TOKEN" in answer.get_json()["detail"]
    assert stock(clients) == (10, 10)
    headers = {"Authorization": "Bearer tökén".encode().decode("latin-1")}
    for number, (server, path) in enumerate(RESET.items(), 2):
        assert clients[server].post(path, json={"stock": number}, headers=headers).status_code == 200
        assert clients["shop"].post("/stock/reduce?guard=none").status_code == 200
        assert stock(clients) == (number, number - 1)
    assert clients["board"].get("/setup").get_json()["token_needed"] is True
    clients = serve(host="0.0.0.0")
    for server, path in RESET.items():
        for headers in ({}, {"Authorization": "Bearer "}):
            answer = clients[server].post(path, json={}, headers=headers)
            assert answer.status_code == 403
            assert "FLASHSALE_ADMIN_TOKEN" in answer.get_json()["detail"]
