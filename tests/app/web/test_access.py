"""Pages of other sites change nothing, although the browser that shows them can reach the shop."""

from __future__ import annotations

import dataclasses

import pytest
from flask.testing import FlaskClient

from app import create_app, services
from app.config.settings import Settings

ORIGIN = "http://localhost"
CHANGES = ["/stock/reset?stock=0", "/stock/reduce?guard=none", "/cart?items=1"]


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
    """A program says nothing of an origin, and a page that the same address serves says the same address."""
    assert [browser.post(change, headers=headers).status_code for change in CHANGES] == [200, 409, 409]


def test_a_name_that_somebody_made_point_here_resets_nothing(browser: FlaskClient) -> None:
    """DNS rebinding: the page of another site seems to be the shop's own, and is not known by its name."""
    answer = browser.post("/stock/reset?stock=0", headers={"Host": "evil.example", "Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "set FLASHSALE_ADMIN_TOKEN" in answer.get_json()["detail"]
    assert browser.get("/stock").get_json()["stock"] == 10


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LocalHost"])
def test_the_shop_is_reset_by_its_address(browser: FlaskClient, host: str) -> None:
    """Whoever asks for this machine by address or as localhost may reset."""
    assert browser.post("/stock/reset", headers={"Host": host}).status_code == 200


def test_with_a_token_any_name_will_do(settings: Settings) -> None:
    """Only who has the token gets that far: the name by which the shop is asked for does not matter."""
    app = create_app(dataclasses.replace(settings, admin_token="s3cret"))
    headers = {"Host": "shop.example", "Authorization": "Bearer s3cret"}
    answer = app.test_client().post("/stock/reset", headers=headers)
    services.of(app).close()
    assert answer.status_code == 200
