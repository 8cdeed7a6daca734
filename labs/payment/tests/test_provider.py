"""The provider keeps the contract of real ones, also over kill -9."""

from __future__ import annotations

import pytest

from labs.payment.calls import Unanswered, call
from labs.payment.contract import DECLINED, PENDING, REFUNDED, SUCCEEDED, Payment
from labs.payment.provider_client import ProviderClient
from labs.payment.stage import PaymentStack, Stage
from tests.support.waiting import wait_until


def test_a_key_is_one_charge_and_one_refund(stage: Stage) -> None:
    """Repeated, both have the same end; another card, or another refund of the same money, is refused."""
    provider, ada = stage.provider, Payment("provider/ada", "good")
    assert provider.charge(ada)
    assert provider.charge(ada)
    assert not provider.charge(Payment("provider/eve", "declined"))
    assert (provider.find("provider/eve"), provider.find("provider/nobody")) == (DECLINED, None)
    with pytest.raises(Unanswered):
        provider.charge(Payment("provider/ada", "declined"))
    provider.refund(ada.key)
    provider.refund(ada.key)
    assert provider.find(ada.key) == REFUNDED
    for charge in ("provider/ada", "provider/eve", "provider/nobody"):
        with pytest.raises(Unanswered):
            call("POST", f"{stage.stack.provider.url}/refunds", {"charge": charge}, key="other", timeout=5)


def test_a_charge_outlives_a_lost_answer_and_kill_9(stage: Stage, running: PaymentStack) -> None:
    """What was asked for is written down first: a retry gets the answer, and a pending charge has its end."""
    provider, lost, late = stage.provider, Payment("provider/lost", "lost-answer"), "provider/late"
    with pytest.raises(Unanswered):
        provider.charge(lost)
    url = f"{running.provider.url}/charges"
    with pytest.raises(Unanswered):  # it is the client that gives up here
        call("POST", url, {"card": "late"}, key=late, timeout=0.5)
    assert provider.find(late) == PENDING
    running.provider.kill()
    running.provider.start()
    assert ProviderClient(running.provider.url).charge(lost)
    wait_until(lambda: provider.find(late) == SUCCEEDED)
