"""The sale as a whole: its keys, and what a reset keeps; and tokens in Redis, in JSON and for people."""

from __future__ import annotations

from app.sales.sale import Sale
from app.sales.slots import Keys
from app.sales.tokens import fence_text, shown
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


def test_people_read_tokens_without_the_zeros(sale: Sale) -> None:
    """Messages show the numbers, and not the padding; what a reset leaves is below the first token of a new etcd."""
    assert [shown(fence_text(token)) for token in (7, CohortToken(7, 12))] == ["7", "7.12"]
    fence = str(sale.client.get(sale.keys.fence))
    assert (shown(fence), fence < fence_text(1)) == ("0", True)
