"""The crowd: phones and robots, their bets, and in each sale one click of each buyer.

A number is what a purchase has read from the counter, as its receipt says. Numbers that several buyers hold are the
clashes: each of those purchases has read the same number before another one had written.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

MOST_PHONES = 400
MOST_OF_ONE_ADDRESS = 250  # a whole room may stand behind one address
MOST_ROBOTS = 1000
LONGEST_NAME = 20
EARLY_S = 0.3  # a phone's clock may be wrong by so much; its click waits for the opening
BLANK = "\u115f\u1160\u2800"  # letters and symbols that show nothing; NFKC makes others into these
POSING = re.compile(
    r"robot|机器人|^\d+ ?(others?|more|phones?|人|个|部)", re.IGNORECASE
)  # as the page says who holds a number
PHONE, ROBOT = "phone: ", "robot: "  # before the names in the shop's ledger


class RoomRefused(Exception):
    """What a phone asked for is refused; `kind` is what the page has a text for."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class RoomPhase(str, Enum):
    """What the crowd does: waits for a sale, counts down to its opening, or buys."""

    WAITING = "waiting"
    COUNTDOWN = "countdown"
    OPEN = "open"


@dataclass(eq=False)
class RoomBuyer:
    """A phone or a robot."""

    id: str  # of a phone the secret in its cookie
    name: str
    address: str = ""
    is_robot: bool = False
    bet: int | None = None  # how many items it bets will be sold

    @property
    def buyer(self) -> str:
        """The name in the shop's ledger."""
        return (ROBOT if self.is_robot else PHONE) + self.name


@dataclass(eq=False)
class RoomClick:
    """The one purchase of a buyer in a sale."""

    sale: RoomSale
    buyer: RoomBuyer
    key: str  # Idempotency-Key at the shop: it names this crowd, sale and buyer, so no phone can use another's
    # Set when it is sold or sold out, or never, when another sale has begun.
    settled: threading.Event = field(default_factory=threading.Event)
    number: int | None = None  # that was read, if it was sold


@dataclass(eq=False)
class RoomSale:
    """One sale of the room, as the stage has set it."""

    number: int
    guard: str
    hold_ms: int
    stock: int
    opens_at: float  # seconds of `time.monotonic`
    robots: int
    clicks: dict[str, RoomClick] = field(default_factory=dict)  # by the id of the buyer
    # Of each number, the clicks that hold it.
    holders: defaultdict[int, list[RoomClick]] = field(default_factory=lambda: defaultdict(list))

    @property
    def opens_in_s(self) -> float:
        return max(self.opens_at - time.monotonic(), 0.0)


class Crowd:
    """All buyers and the sale that they are in. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._token = secrets.token_hex(4)
        self._phones: dict[str, RoomBuyer] = {}
        self._sales = 0
        self._buying = 0
        self.sale: RoomSale | None = None  # `None` between two sales, too

    @property
    def phones(self) -> list[RoomBuyer]:
        with self._lock:
            return list(self._phones.values())

    @property
    def phase(self) -> RoomPhase:
        sale = self.sale
        if sale is None:
            return RoomPhase.WAITING
        return RoomPhase.COUNTDOWN if sale.opens_in_s > 0 else RoomPhase.OPEN

    def join(self, name: str, address: str) -> RoomBuyer:
        """A new phone; a name that is taken gets a number. Raises RoomRefused."""
        name = checked_name(name)
        with self._lock:
            if len(self._phones) >= MOST_PHONES:
                raise RoomRefused(503, "full", f"The room is full: {MOST_PHONES} phones are in it.")
            if sum(each.address == address for each in self._phones.values()) >= MOST_OF_ONE_ADDRESS:
                raise RoomRefused(429, "full", f"{MOST_OF_ONE_ADDRESS} phones with your address are in the room.")
            taken = {each.name for each in self._phones.values()}
            free = (f"{name} {number}" for number in range(2, MOST_PHONES + 2))
            name = name if name not in taken else next(each for each in free if each not in taken)
            phone = RoomBuyer(secrets.token_urlsafe(24), name, address)
            self._phones[phone.id] = phone
            return phone

    def find(self, id: str) -> RoomBuyer | None:
        """The phone with this cookie."""
        return self._phones.get(id)

    def remove(self, name: str) -> None:
        """Send a phone out of the room; its order stays."""
        with self._lock:
            self._phones = {id: each for id, each in self._phones.items() if each.name != name}

    @property
    def most_buyers(self) -> int:
        """How many buy in the sale that opens next: its phones and robots, or as many as a room may have."""
        with self._lock:
            return len(self._phones) + self.sale.robots if self.sale else MOST_PHONES + MOST_ROBOTS

    def bet(self, phone: RoomBuyer, items: int) -> None:
        """Bet how many will be sold; the last bet before the opening counts. Raises RoomRefused."""
        with self._lock:
            if self.phase is RoomPhase.OPEN:
                raise RoomRefused(409, "bets_closed", "The sale is open: no more bets.")
            if not 0 <= items <= self.most_buyers:
                message = f"Bet a whole number from 0 to {self.most_buyers}: no more can buy."
                raise RoomRefused(400, "no_number", message)
            phone.bet = items

    def end_sale(self, *, timeout: float) -> None:
        """End the sale, and wait until the shop has answered all that was sent; raises RoomRefused if it has not.

        A purchase under way could otherwise be made in the next sale. The bets on a sale that was open end with it.
        """
        with self._changed:
            if self.phase is RoomPhase.OPEN:
                for phone in self._phones.values():
                    phone.bet = None
            self.sale = None
            if not self._changed.wait_for(lambda: not self._buying, timeout):
                raise RoomRefused(409, "under_way", f"{self._buying} purchases are under way: try again in a moment.")

    def begin_sale(self, *, guard: str, hold_ms: int, stock: int, opens_in_s: float, buyers: int) -> RoomSale:
        """The next sale, after `end_sale`; robots fill up the phones to so many `buyers`."""
        with self._lock:
            self._sales += 1
            robots = min(max(buyers - len(self._phones), 0), MOST_ROBOTS)
            opens_at = time.monotonic() + opens_in_s
            self.sale = RoomSale(self._sales, guard, hold_ms, stock, opens_at, robots)
            return self.sale

    def click(self, buyer: RoomBuyer, key: str, sale: int) -> tuple[RoomClick, bool]:
        """The click of a buyer in the sale of this number, and whether it is the first; others have no effect.

        Raises RoomRefused if that sale is not open, nor about to open.
        """
        with self._lock:
            if self.sale is None or self.sale.number != sale or self.sale.opens_in_s > EARLY_S:
                raise RoomRefused(409, "not_open", "The sale is not open yet.")
            if click := self.sale.clicks.get(buyer.id):
                return click, False
            own = buyer.name if buyer.is_robot else buyer.id[:12]
            click = RoomClick(self.sale, buyer, f"room-{self._token}-{self.sale.number}-{own}-{key}")
            self.sale.clicks[buyer.id] = click
            return click, True

    def enter(self, click: RoomClick) -> bool:
        """Count a request that is sent to the shop; False if its sale is over. Then `leave`."""
        with self._lock:
            if self.sale is not click.sale:
                return False
            self._buying += 1
            return True

    def leave(self, click: RoomClick, *, is_settled: bool, number: int | None = None) -> None:
        """Its answer is there, if it came, which may settle the click."""
        with self._changed:
            self._buying -= 1
            self._changed.notify_all()
            if is_settled and not click.settled.is_set():
                click.number = number
                if number is not None:
                    click.sale.holders[number].append(click)
                click.settled.set()

    def others(self, click: RoomClick) -> list[RoomBuyer]:
        """The other buyers that hold the same number."""
        with self._lock:
            holders = [] if click.number is None else click.sale.holders[click.number]
            return [each.buyer for each in holders if each is not click]

    def clashes(self) -> list[tuple[int, list[str], int]]:
        """The numbers that several buyers hold, with the phones' names and how many robots; most phones first."""
        with self._lock:
            holders = self.sale.holders if self.sale else {}
            held = {number: [each.buyer for each in clicks] for number, clicks in holders.items() if len(clicks) > 1}
        clashes = [
            (number, [each.name for each in buyers if not each.is_robot], sum(each.is_robot for each in buyers))
            for number, buyers in held.items()
        ]
        return sorted(clashes, key=lambda each: (-len(each[1]), -each[2], each[0]))


def checked_name(text: str) -> str:
    """A name in one short line, without what changes the direction of a text or can't be seen. Raises RoomRefused."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(each if unicodedata.category(each)[0] != "C" and each not in BLANK else " " for each in normal)
    name = " ".join(visible.split())[:LONGEST_NAME].strip()
    if not any(unicodedata.category(each)[0] in "LNS" for each in name):
        raise RoomRefused(400, "no_name", f"Give a name of 1 to {LONGEST_NAME} characters.")
    if POSING.search(name):
        raise RoomRefused(400, "posing", "Choose another name: this one reads as if the page counted others.")
    return name
