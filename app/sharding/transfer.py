"""Moving items between the slots of one item, which no script can do in one step: the slots may be on different nodes.

A transfer is three steps, each of them a script or a command in one slot. *Debit* takes items out of a slot and writes
the transfer into the slot's journal. *Credit* adds them to a shard, once for each id. *Settle* deletes the entry, and
only follows a credit that has succeeded. The caller holds the item's mutex in etcd. Debit and credit carry its token,
and each slot refuses a token lower than one that it has seen. Several transfers take each step together: those slots
that are on one Redis in one transaction.

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
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from app.sales.purchase import Token
from app.sales.redis_client import Call, Script
from app.sales.refusals import SaleReset
from app.sales.sale import Sale
from app.sales.stock import fence_text, raise_refusal

Args = tuple[str | int, ...]
DEBIT, CREDIT = (Script(Path(__file__).with_name(f"{name}.lua")) for name in ("debit", "credit"))


class Transfers:
    """Those of one holder of the mutex, in one item of a sale.

    Error handling: `FencedOff`, `SaleReset`, what `Sale.reconcile` raises, or a `redis.RedisError` may leave transfers
    to be finished by the next holder.

    Attributes:
        generation: of the sale in which items are moved.
    """

    def __init__(self, sale: Sale, item: str, fence: Token) -> None:
        self._sale = sale
        self._item = item
        self._fence = fence
        self._slots = sale.slots_of[item]
        self.generation = sale.generation

    def refill(self, wanted: Mapping[int, int]) -> bool:
        """Move items to these shards: parts of the treasury until they are enough, or else half of the richest shard.

        Args:
            wanted: from the number of a shard to how many items are wanted there.

        Returns:
            False if nothing is left anywhere, now and until a reset.
        """
        if self._move(0, wanted, divisor=2 * (len(self._slots) - 1)):
            return True
        while True:
            looks = self._run(DEBIT, [(place, ()) for place in range(len(self._slots))])
            if not sum(self._finish(place, *look) for place, look in enumerate(looks)):
                break
        left = [left for (left,) in looks]
        empty = {shard: 1 for shard, items in wanted.items() if items and not left[1 + shard]}
        if any(left) and empty:
            self._move(left.index(max(left)), empty, divisor=2)
        return any(left)

    def _move(self, source: int, wanted: Mapping[int, int], *, divisor: int) -> int:
        """Take parts of a slot, one in `divisor`; how many transfers have arrived, those of dead holders as well."""
        transfers = [text for shard, items in wanted.items() for text in (uuid.uuid4().hex, shard, items)]
        ((left, *journal),) = self._run(DEBIT, [(source, (divisor, *transfers))])
        return self._finish(source, left, *journal)

    def _finish(self, source: int, _left: int, *journal: str) -> int:
        """Credit and settle what stands in the journal of a slot; how many transfers there were."""
        names, notes = journal[::2], [map(int, note.split()) for note in journal[1::2]]
        if names:
            self._run(CREDIT, [(1 + to, (name, amount)) for name, (to, amount) in zip(names, notes, strict=True)])
            self._slots[source].client.hdel(self._slots[source].keys.transfers, *names)
        return len(names)

    def _run(self, script: Script, calls: Sequence[tuple[int, Args]]) -> list[list[Any]]:
        """Run it in the slots that have these places; those of one Redis in one step, and one trip."""
        answers = list[list[Any]]()
        for client, there in groupby(calls, lambda call: self._slots[call[0]].client):
            answers += script.run_together(client, [self._call(script, *call) for call in there])
        for (place, _), (status, *found) in zip(calls, answers, strict=True):
            if status == "generation":
                self._sale.reconcile(self._item, found[0], self._slots[place])
                raise SaleReset("the sale was reset while items were moved")
            raise_refusal(status, str(found[0]) if found else "", self._fence)
        return [found for _, *found in answers]

    def _call(self, script: Script, place: int, args: Args) -> Call:
        k = self._slots[place].keys
        notes = k.transfers if script is DEBIT else k.credited
        return [k.stock, k.fence, k.generation, notes], [self.generation, fence_text(self._fence), *args]
