"""The ways to sell and be paid, by name, in the order in which they are shown."""

from __future__ import annotations

from labs.payment.ways.base import Way
from labs.payment.ways.pay_inside import PayInside
from labs.payment.ways.reserve import Reserve
from labs.payment.ways.reserve_checked import ReserveChecked

WAYS: dict[str, type[Way]] = {way.name: way for way in (PayInside, Reserve, ReserveChecked)}
