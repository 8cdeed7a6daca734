"""Moving items between the slots of one item, which no script can do in one step: the slots may be on different nodes.

A transfer is three steps, each of them a script or a command in one slot. *Debit* takes items out of a slot and writes
the transfer into the slot's journal. *Credit* adds them to a shard, once for each id. *Settle* deletes the entry, and
only follows a credit that has succeeded. The caller holds the item's mutex in etcd. Debit and credit carry its token,
and each slot refuses a token lower than one that it has seen. Several transfers take each step together: those slots
that are on one Redis in one transaction.

A slot fails if its node is dead or frozen, or has lost its data. The holder leaves it out from then on and goes on with
the others: each transfer is credited and settled by itself.

Why it is right:

- Conservation: an item is in a stock, in a ledger, or in an entry that is not credited yet, and in one of them only.
  Every step moves it inside its slot atomically; a credit that is repeated changes nothing. So orders + stocks + items
  in transit = initial at every moment, whatever is killed, paused or repeated, even without the mutex and the fence.
- Nothing is left behind. If the author of an entry died, or a step failed or its answer was lost, the entry stays. The
  next holder that looks at the slot finds it, and finishes it as soon as its shard answers: credit, then settle.
- "Sold out" is true. It follows a round of looks, one at every slot, none of which has failed or found items or
  entries. The looks are not of one moment, and this is what the fence is for. A paused holder P could move the last
  item from A, which is looked at later, to B, which was found empty. But the look at B has raised the fence there, so
  P's credit is refused, P never settles, and the look at A finds the entry. A later holder Q that moves items between
  two looks raises the fence, too: then the next look is refused. From then on sales can only lower the stocks, and only
  a reset begins another generation, which every step names. So it stays true for that generation.
- It ends. Each round but the last one settles an entry, moves an item to the caller's shard, finds that another slot
  has failed, or that buyers took what was to be moved.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from app.sales.purchase import Token
from app.sales.redis_client import Script
from app.sales.refusals import REDIS_ERRORS, SaleDamaged, SaleLost, SaleReset, again
from app.sales.stock import REFUSED, fence_text, refusal
from labs.shards.client import Call, run_together
from labs.shards.opening import Places
from labs.shards.slots import Slot

T = TypeVar("T")
Args = tuple[str | int, ...]
LUA = Path(__file__).with_name("lua")
DEBIT, CREDIT = (Script(LUA / f"{name}.lua") for name in ("debit", "credit"))
SLOT_ERRORS = (*REDIS_ERRORS, SaleLost, SaleDamaged)


class Transfers:
    """Those of one holder of the mutex, in one item of a sale.

    Error handling: `FencedOff`, `SaleReset` and what `Sale.follow` raises end it, and may leave transfers to be
    finished by the next holder.

    Args:
        places: of the item.
        fence: the holder's token.

    Attributes:
        generation: of the sale in which items are moved.
        failed: the error of each slot that has failed, by its place: 0 is the treasury, 1 is shard 0.
    """

    def __init__(self, places: Places, fence: Token) -> None:
        self._places = places
        self._fence = fence
        self._slots: list[Slot] = places.slots
        self.generation = ""
        self.failed: dict[int, Exception] = {}

    def refill(self, wanted: Mapping[int, int]) -> bool:
        """Move items to these shards: parts of the treasury until they are enough, or else half of the richest shard.

        Args:
            wanted: from the number of a shard to how many items are wanted there. The first is the caller's own.

        Returns:
            Whether the caller's shard has items; False if nothing is left anywhere, now and until a reset.

        Raises:
            Exception: one of `SLOT_ERRORS`; the caller's shard has failed, or a slot that may have items for it.
        """
        own = next(iter(wanted))
        self.generation, self.failed = self._places.open(self._fence)
        if own in self._move(0, wanted, divisor=2 * (len(self._slots) - 1)):
            return True
        while True:
            looks = self._run(DEBIT, [(place, ()) for place in range(len(self._slots))])
            left = {place: items for place, _, (items, *_) in looks}
            arrived = {shard for place, _, (_, *journal) in looks for shard in self._finish(place, journal)}
            if own in arrived or left.get(1 + own):
                return True
            richest = max(left, key=lambda place: left[place], default=0)
            if not arrived and (1 + own in self.failed or not left.get(richest)):
                break
            if not arrived:
                empty = [own, *(shard for shard, items in wanted.items() if items and left.get(1 + shard) == 0)]
                if own in self._move(richest, dict.fromkeys(empty, 1), divisor=2):
                    return True
        if self.failed:
            raise again(self.failed.get(1 + own) or next(iter(self.failed.values())))
        return False

    def _move(self, source: int, wanted: Mapping[int, int], *, divisor: int) -> set[int]:
        """Take parts of a slot, one in `divisor`; the shards to which items came, those of dead holders as well."""
        transfers = [text for shard, items in wanted.items() for text in (uuid.uuid4().hex, shard, items)]
        debited = self._run(DEBIT, [(source, (divisor, *transfers))])
        return {shard for _, _, (_, *journal) in debited for shard in self._finish(source, journal)}

    def _finish(self, source: int, journal: Sequence[str]) -> set[int]:
        """Credit and settle what stands in the journal of a slot; the shards where items have arrived."""
        calls = list[tuple[int, Args]]()
        for name, note in zip(journal[::2], journal[1::2], strict=True):
            shard, amount = note.split()
            calls.append((1 + int(shard), (name, amount)))
        credited = self._run(CREDIT, calls)
        if credited:
            slot, names = self._slots[source], [str(name) for _, (name, _), _ in credited]
            self._reach([source], lambda: slot.client.hdel(slot.keys.transfers, *names))
        return {place - 1 for place, _, _ in credited}

    def _run(self, script: Script, calls: Sequence[tuple[int, Args]]) -> list[tuple[int, Args, list[Any]]]:
        """Run it in the slots that have these places; those of one Redis in one step, and one trip.

        Returns:
            Place, arguments and finding of each call that has succeeded.
        """
        done, living = [], [call for call in calls if call[0] not in self.failed]
        for client, group in groupby(living, lambda call: self._slots[call[0]].client):
            there = list(group)
            asked = [self._call(script, *call) for call in there]
            answers = self._reach([place for place, _ in there], partial(run_together, script, client, asked))
            for (place, args), (status, *found) in zip(there, answers or (), strict=False):
                if self._accepts(place, status, found):
                    done.append((place, args, found))
        return done

    def _call(self, script: Script, place: int, args: Args) -> Call:
        slot = self._slots[place]
        notes = [slot.keys.transfers, slot.keys.sent] if script is DEBIT else [slot.keys.credited, slot.keys.arrived]
        return [slot.stock, slot.fence, slot.generation, *notes], [self.generation, fence_text(self._fence), *args]

    def _accepts(self, place: int, status: str, found: list[Any]) -> bool:
        """Whether a slot has executed its script; False if the slot has failed."""
        try:
            if status == "generation":
                if int(found[0] or 0) > int(self.generation):
                    raise SaleReset("the sale was reset while items were moved")
                raise SaleLost
            if status in REFUSED:
                raise refusal(status, str(found[0]), self._fence)
        except SLOT_ERRORS as error:
            self.failed[place] = error
            return False
        return True

    def _reach(self, places: Sequence[int], send: Callable[[], T]) -> T | None:
        """What `send` returns; None if the slots at these places, which are on one Redis, have failed."""
        try:
            return self._places.nodes.reach(self._slots[places[0]].client, send)
        except REDIS_ERRORS as error:
            self.failed.update(dict.fromkeys(places, error))
            return None
