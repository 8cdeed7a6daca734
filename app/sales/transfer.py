"""Moving items between the slots of one item, which no script can do in one step: the slots may be on different nodes.

A transfer is three steps, each of them a script or a command in one slot. *Debit* takes items out of a slot and writes
the transfer into the slot's journal. *Credit* adds them to a shard, once for each id. *Settle* deletes the entry, and
only follows a credit that has succeeded. The caller holds the item's mutex in etcd. Debit and credit carry its token,
and each slot refuses a token lower than one that it has seen.

Why it is right:

- Conservation: an item is in a stock, in a ledger, or in an entry that is not credited yet, and in one of them only.
  Every step moves it inside its slot atomically; a credit that is repeated changes nothing. So orders + stocks + items
  in transit = initial at every moment, whatever is killed, paused or repeated, even without the mutex and the fence.
- Nothing is left behind. If the author of an entry died, or its answer was lost, the next holder that looks at the slot
  finds the entry, and finishes it: credit, then settle.
- "Sold out" is true. It follows a look at every slot that has found neither items nor entries. The looks are not of one
  moment, and this is what the fence is for. A paused holder P could move the last item from A, which is looked at
  later, to B, which was found empty. But the look at B has raised the fence there, so P's credit is refused, P never
  settles, and the look at A finds the entry. A later holder Q that moves items between two looks raises the fence, too:
  then the next look is refused. From then on sales can only lower the stocks, and only a reset begins another
  generation, which every step names. So it stays true for that generation.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from app.sales.refusals import SaleReset
from app.sales.sale import Sale
from app.sales.scripts import Script, fenced_off
from app.sales.slots import Slot
from app.sales.tokens import Token, fence_text


class Look(NamedTuple):
    """What a debit has taken from a slot, and found there.

    Attributes:
        left: items in the slot after it.
        pending: transfers that stood in the journal before: id, shard, amount.
    """

    taken: int
    left: int
    pending: list[tuple[str, int, int]]


class Transfers:
    """Those of one holder of the mutex, in one item of a sale.

    Error handling: `FencedOff`, `SaleReset`, what `Sale.reconcile` raises, or a `redis.RedisError` may leave a transfer
    to be finished by the next holder.

    Attributes:
        generation: of the sale in which items are moved.
    """

    def __init__(self, sale: Sale, item: str, fence: Token) -> None:
        self._sale = sale
        self._item = item
        self._fence = fence
        self._slots = sale.slots_of[item]
        self.generation = sale.generation(item)

    def refill(self, shard: int) -> bool:
        """Move items to a shard: from the treasury, or else half of what the richest shard has.

        Returns:
            False if nothing is left anywhere, now and until a reset.
        """
        if self._move(0, shard, divisor=2 * (len(self._slots) - 1)):
            return True
        while True:
            looks = [self._debit(slot) for slot in self._slots]
            if not sum(self._finish(place, look.pending) for place, look in enumerate(looks)):
                break
        richest = max(range(len(looks)), key=lambda place: looks[place].left)
        if looks[richest].left and richest != 1 + shard:
            self._move(richest, shard, divisor=2)
        return looks[richest].left > 0

    def _move(self, source: int, shard: int, *, divisor: int) -> int:
        """Take one part in `divisor` of a slot; how many transfers have arrived, with those that it found pending."""
        name = uuid.uuid4().hex
        look = self._debit(self._slots[source], name, shard, divisor)
        return self._finish(source, [*look.pending, *([(name, shard, look.taken)] if look.taken else [])])

    def _debit(self, slot: Slot, *transfer: str | int) -> Look:
        k = slot.keys
        taken, left, *journal = self._run("debit", slot, [k.stock, k.fence, k.generation, k.transfers], transfer)
        notes = zip(journal[::2], (note.split() for note in journal[1::2]), strict=True)
        return Look(taken, left, [(name, int(shard), int(amount)) for name, (shard, amount) in notes])

    def _finish(self, source: int, pending: list[tuple[str, int, int]]) -> int:
        """Credit and settle what stands in the journal of a slot; how many there were."""
        client, journal = self._slots[source].client, self._slots[source].keys.transfers
        for name, shard, amount in pending:
            slot = self._slots[1 + shard]
            k = slot.keys
            self._run("credit", slot, [k.stock, k.fence, k.generation, k.credited], (name, amount))
            client.hdel(journal, name)
        return len(pending)

    def _run(self, script: str, slot: Slot, keys: list[str], args: tuple[str | int, ...]) -> list[Any]:
        found: list[Any]
        status, *found = Script(slot.client, script)(keys, [self.generation, fence_text(self._fence), *args])
        if status == "generation":
            self._sale.reconcile(self._item, found[0], slot)
            raise SaleReset("the sale was reset while items were moved")
        if status == "fenced":
            raise fenced_off(self._fence, found[0])
        return found
