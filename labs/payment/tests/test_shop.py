"""What the shop answers about payments."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from labs.payment.contract import Outcome
from labs.payment.stage import Stage


@pytest.mark.parametrize(
    ("query", "key", "code", "word"),
    [("", "", 400, "Idempotency-Key"), ("?card=gold", "k", 400, "lost-answer"), ("?way=hope", "k", 400, "pay-inside")],
)
def test_bad_input_is_told_what_to_give(stage: Stage, query: str, key: str, code: int, word: str) -> None:
    """Nothing is reserved without a key, for an unknown card, or under an unknown way."""
    request = Request(f"{stage.stack.urls[0]}/payments{query}", method="POST")
    if key:
        request.add_header("Idempotency-Key", key)
    with pytest.raises(HTTPError) as refused:
        urlopen(request, timeout=5)
    with refused.value as answer:
        assert answer.code == code
        assert word in answer.read().decode()


@pytest.mark.parametrize("way", ["pay-inside", "reserve", "reserve-checked"])
def test_a_retry_pays_once_and_a_declined_card_leaves_the_item(stage: Stage, way: str) -> None:
    """Two requests with one key are one order; a declined buyer is told, and the item goes to the next."""
    told = list[Outcome | None]()

    def play(crowd: object) -> None:
        for key, card in (("eve", "declined"), ("ada", "good"), ("ada", "good"), ("bob", "good")):
            crowd.send(crowd.sale + key, card, stage.stack.urls).join()  # type: ignore[attr-defined]
            told.append(crowd.outcomes[crowd.sale + key])  # type: ignore[attr-defined]

    result = stage.sell(way, 1, play)
    assert told == [Outcome.DECLINED, Outcome.PAID, Outcome.PAID, Outcome.SOLD_OUT]
    assert [order.payment.partition("/")[2] for order in result.orders] == ["ada"]
    assert result.findings == {"exact": 0}
