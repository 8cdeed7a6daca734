"""The sale as a whole: its keys, and what a reset keeps; and tokens in Redis, in JSON and for people."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from app.sales.sale import Sale
from app.sales.slots import Keys
from app.sales.tokens import Token, fence_text, shown
from lock import CohortToken
from tests.app.sales.conftest import Process


def test_the_first_item_has_the_keys_of_a_sale_with_one(process: Process) -> None:
    """Further items add their number; all keys have the same hash tag, or no cluster could run a script over them."""
    assert Keys("demo").stock == Keys("demo", "1").stock == "sale:{demo}:stock"
    assert Keys("demo", "7").orders == "sale:{demo}:7:orders"
    assert Keys("demo", "7").answers == "sale:{demo}:answers"
    names = [name for keys in process(items=3).keys_of.values() for name in vars(keys).values()]
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1
    assert len(set(names)) == len(names) - 2 * 3  # the answers, the opener and the key that does not exist are shared


def test_a_reset_keeps_what_was_sold_before(sale: Sale) -> None:
    """Counters and ledger of the last sale with orders can still be read, also after a second reset without any."""
    generation = sale.client.get(sale.keys.generation)
    sale.client.decr(sale.keys.stock)
    sale.client.rpush(sale.keys.orders, "first", "second")
    sale.reset(5)
    sale.reset(6)
    previous = {"initial": "10", "stock": "9", "lucky": "0", "generation": generation}
    assert sale.client.hgetall(sale.keys.previous) == previous
    assert sale.client.lrange(sale.keys.previous_orders, 0, -1) == ["first", "second"]


revisions = st.integers(1, 2**63 - 1)
turns = st.integers(1, 2**31)
holds = st.lists(revisions, unique=True, min_size=2, max_size=2).map(sorted)


@given(holds, turns, turns)
def test_a_later_hold_is_above_every_turn_of_an_earlier_one(revisions: list[int], turn: int, other: int) -> None:
    """Whether a hold is one token or many turns, what Redis compares rises from hold to hold."""
    earlier, later = revisions
    before: list[Token] = [earlier, CohortToken(earlier, turn)]
    after: list[Token] = [later, CohortToken(later, other)]
    assert all(fence_text(low) < fence_text(high) for low in before for high in after)


@given(revisions, turns)
@example(1, 999_999_999)
def test_a_later_turn_is_above_an_earlier_one(revision: int, turn: int) -> None:
    """Within a hold tokens rise from turn to turn, also where a digit is added."""
    assert fence_text(CohortToken(revision, turn)) < fence_text(CohortToken(revision, turn + 1))


def test_people_read_tokens_without_the_zeros(sale: Sale) -> None:
    """Messages show the numbers, and not the padding; what a reset leaves is below the first token of a new etcd."""
    assert [shown(fence_text(token)) for token in (7, CohortToken(7, 12))] == ["7", "7.12"]
    fence = str(sale.client.get(sale.keys.fence))
    assert (shown(fence), fence < fence_text(1)) == ("0", True)
