"""The state of the room, as a phone and as the board sees it."""

from __future__ import annotations

from typing import Any

from labs.room.crowd import Crowd, RoomBuyer

LEAST_POLL_MS, POLL_MS_OF_A_PHONE = 1000, 8  # a phone asks again after so long; 200 phones about 125 times a second
MOST_NAMES = 12  # of those that hold the same number


def to_phone(crowd: Crowd, phone: RoomBuyer | None, *, needs_pin: bool = False) -> dict[str, Any]:
    """What this phone sees, or one that has not joined."""
    sale, joined = crowd.sale, len(crowd.phones)
    return {
        "phase": crowd.phase.value,
        "sale": sale and sale.number,
        "opens_in_ms": sale and round(sale.opens_in_s * 1000),
        "stock": sale and sale.stock,
        "joined": joined,
        "most_buyers": crowd.most_buyers,
        "poll_ms": max(LEAST_POLL_MS, POLL_MS_OF_A_PHONE * joined),
        "needs_pin": needs_pin,
        "me": phone and {"name": phone.name, "bet": phone.bet, **_purchase(crowd, phone)},
    }


def _purchase(crowd: Crowd, phone: RoomBuyer) -> dict[str, Any]:
    sale = crowd.sale  # another thread may end it
    click = sale.clicks.get(phone.id) if sale else None
    if click is None or not click.settled.is_set():
        return {"bought": click and "pending"}
    others = crowd.others(click)
    names = [each.name for each in others if not each.is_robot]
    return {
        "bought": "sold_out" if click.number is None else "sold",
        "number": click.number,
        "others": names[:MOST_NAMES],
        "more": max(len(names) - MOST_NAMES, 0),
        "robots": len(others) - len(names),
    }


def to_board(crowd: Crowd) -> dict[str, Any]:
    """What the stage and its viewers see."""
    sale, phones = crowd.sale, crowd.phones
    of_sale = sale and {
        "number": sale.number,
        "guard": sale.guard,
        "stock": sale.stock,
        "robots": sale.robots,
        "opens_in_ms": round(sale.opens_in_s * 1000),
    }
    return {
        "phase": crowd.phase.value,
        "names": [each.name for each in phones],
        "bets": [{"name": each.name, "bet": each.bet} for each in phones if each.bet is not None],
        "clashes": [{"number": n, "names": names, "robots": robots} for n, names, robots in crowd.clashes()],
        "sale": of_sale,
    }
