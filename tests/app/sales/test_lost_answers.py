"""A purchase whose answer from Redis is lost: truthful to the buyer, and resolved by the idempotency key."""

from __future__ import annotations

from hashlib import sha1

import pytest
import redis
from flask.testing import FlaskClient

from app.guards import GUARDS
from app.sales.script_results import sending
from app.sales.scripts import TEXTS
from tests.support.overtaking import answer_lost

SCRIPT = {name: sha1(text.encode()).hexdigest().encode() for name, text in TEXTS.items()}
IN_ONE = ("etcd-batch", "redis-lua", "cart")
WAYS = [*(guard.name for guard in GUARDS), "cart"]


def address(guard: str) -> str:
    """Where to buy."""
    return "/cart?items=1&buyer=ada" if guard == "cart" else f"/stock/reduce?guard={guard}&buyer=ada"


@pytest.fixture
def warm(browser: FlaskClient) -> FlaskClient:
    """A buyer at a shop whose scripts Redis knows already."""
    for guard in WAYS:
        assert browser.post(address(guard)).status_code == 200
    browser.post("/stock/reset")
    browser.get("/stock")
    return browser


@pytest.mark.parametrize("guard", WAYS)
def test_a_lost_write_is_in_doubt_and_the_key_resolves_it(warm: FlaskClient, guard: str) -> None:
    """The buyer is told that it may have been bought; asking again with the same key gives the one order there is."""
    headers = {"Idempotency-Key": "k"}
    with answer_lost(SCRIPT["cart" if guard == "cart" else "sell" if guard in IN_ONE else "write"]):
        lost = warm.post(address(guard), headers=headers)
    assert (lost.status_code, lost.headers["Retry-After"]) == (503, "1")
    assert (lost.get_json()["outcome"], lost.get_json()["in_doubt"]) == ("unavailable", True)
    assert "same Idempotency-Key" in lost.get_json()["detail"]
    assert warm.get("/stock").get_json()["orders"] == 1

    again = warm.post(address(guard), headers=headers)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert warm.get("/stock").get_json()["orders"] == 1


@pytest.mark.parametrize("guard", [guard for guard in WAYS if guard not in IN_ONE])
def test_a_lost_read_is_not_in_doubt(warm: FlaskClient, guard: str) -> None:
    """Where the answer to the read is lost, nothing was written, and the buyer is told so."""
    with answer_lost(SCRIPT["read"]):
        lost = warm.post(address(guard))
    assert lost.status_code == 503
    assert (lost.get_json()["outcome"], lost.get_json()["in_doubt"]) == ("unavailable", False)
    assert "Nothing was written" in lost.get_json()["detail"]
    assert warm.get("/stock").get_json()["orders"] == 0
    assert warm.post(address(guard)).status_code == 200


def test_a_redis_that_still_reads_its_data_has_written_nothing() -> None:
    """Redis says so instead of executing anything, so nothing is in doubt, although redis-py calls it a lost line."""
    with pytest.raises(redis.BusyLoadingError), sending():
        raise redis.BusyLoadingError("Redis is loading the dataset in memory")
