"""The places of an item: which generation the sale has, and which shards are open in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from app.sales.purchase import Token
from app.sales.redis_client import Script
from app.sales.refusals import REDIS_ERRORS, SaleReset
from app.sales.sale import Sale
from app.sales.stock import REFUSED, fence_text, refusal
from labs.shards.client import node_of
from labs.shards.nodes import FrozenNodes
from labs.shards.slots import Slot, slots_of

LUA = Path(__file__).with_name("lua")
LOOK, OPEN, NOTE = (Script(LUA / f"{name}.lua") for name in ("look", "open", "note"))


class Places:
    """The treasury and the shards of one item, as one process knows them. Thread-safe.

    Attributes:
        keys: those of the sale.
        slots: the treasury, and after it the shards.
        nodes: those that do not answer.
    """

    def __init__(self, sale: Sale, item: str, shards: int) -> None:
        self._sale = sale
        self.keys = sale.keys_of[item]
        self.slots = slots_of(sale.client, sale.name, item, shards)
        self.nodes = FrozenNodes()
        self._noted = ("", frozenset[int]())  # a generation, and the slots of which this process knows that they are

    def current(self, shard: Slot) -> str:
        """The generation of the sale, asked of the treasury.

        Where the treasury is out of reach, and the shard is on another node: the last one that is known. A reset needs
        the treasury, too; one that this process alone cannot reach is the one case in which its buyers may still buy in
        a sale that another instance has reset, until a purchase there opens the shard anew.

        Raises as `Sale.follow`.
        """
        while True:
            generation, sent = self._sale.generation, time.monotonic()
            try:
                status, *found = self._look(generation)
            except REDIS_ERRORS:
                if not generation or node_of(shard.client) is node_of(self.slots[0].client):
                    raise
                return generation
            if status == "current":
                return generation
            self._sale.follow(generation, found[0], found[1], sent)

    def open(self, fence: Token) -> tuple[str, dict[int, Exception]]:
        """See that all slots are open and noted, under the mutex with its token.

        Returns:
            The generation, and the error of each slot that cannot be used in it, by its place.

        Raises:
            SaleReset: the sale was reset since this process last asked.
            FencedOff: a higher token was here before.
        """
        generation, sent, failed = self._sale.generation, time.monotonic(), dict[int, Exception]()
        if not self._missing(generation):
            return generation, failed
        try:
            status, *found = self._look(generation)
            if status != "current":
                self._sale.follow(generation, found[0], found[1], sent)
                raise SaleReset("the sale was reset while this purchase was waiting")
            failed = self._open([place for place in self._missing(generation) if place], generation)
            if opened := [place for place in self._missing(generation) if place not in failed]:
                self._note(opened, generation, fence)
        except REDIS_ERRORS as error:  # of the treasury: what this process does not know to be open must not be used
            failed |= dict.fromkeys([0, *self._missing(generation)], error)
        return generation, failed

    def _missing(self, generation: str) -> list[int]:
        """The places of the slots of which this process does not know that the sale has noted them."""
        noted = self._noted[1] if self._noted[0] == generation else ()
        return [place for place in range(len(self.slots)) if place not in noted]

    def _look(self, generation: str) -> list[str]:
        """What `look.lua` says; learns which slots are noted unless all are."""
        treasury = self.slots[0]
        keys = [treasury.stock, treasury.generation]
        if self._missing(generation):
            keys.append(self.keys.places)
        answer: list[str] = self.nodes.reach(treasury.client, partial(LOOK.run, treasury.client, keys, [generation]))
        status, *found = answer
        if status in REFUSED:
            raise refusal(status, found[0], None)
        if status == "current" and found:
            noted = {prefix for prefix, each in zip(found[::2], found[1::2], strict=True) if each == generation}
            here = [place for place, slot in enumerate(self.slots) if slot.keys.prefix in noted]
            self._noted = generation, frozenset(here)
        return answer

    def _open(self, places: Sequence[int], generation: str) -> dict[int, Exception]:
        """Open these shards; the error of each that cannot be reached."""
        failed = dict[int, Exception]()
        for place in places:
            client, k = self.slots[place].client, self.slots[place].keys
            keys = [k.generation, k.stock, k.lucky, k.orders, k.fence, k.answers, k.sent, k.arrived]
            keys += [k.transfers, k.credited, k.previous, k.previous_orders]
            try:
                self.nodes.reach(client, partial(OPEN.run, client, keys, [generation]))
            except REDIS_ERRORS as error:
                failed[place] = error
        return failed

    def _note(self, places: Sequence[int], generation: str, fence: Token) -> None:
        """Have the sale note these slots."""
        client, journal, stock, fence_key, generation_key = self.slots[0]
        keys = [stock, fence_key, generation_key, self.keys.places]
        keys += [journal.generation, journal.sent, journal.transfers, journal.previous]
        prefixes = [self.slots[place].keys.prefix for place in places]
        asked = [generation, fence_text(fence), *prefixes]
        status, *found = self.nodes.reach(client, partial(NOTE.run, client, keys, asked))
        if status == "generation":
            raise SaleReset("the sale was reset while its shards were opened")
        if status in REFUSED:
            raise refusal(status, found[0], fence)
        known = self._noted[1] if self._noted[0] == generation else frozenset[int]()
        self._noted = generation, known.union(places)
