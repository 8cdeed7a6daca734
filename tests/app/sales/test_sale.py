"""The keys of a sale."""

from __future__ import annotations

from app.contract.keys import Keys
from tests.support.sale_fixtures import Process


def test_the_first_item_has_the_keys_of_a_sale_with_one(process: Process) -> None:
    """Further items add their number; all keys have the same hash tag, or no cluster could run a script over them."""
    assert Keys("demo").stock == Keys("demo", "1").stock == "sale:{demo}:stock"
    assert Keys("demo", "7").orders == "sale:{demo}:7:orders"
    assert Keys("demo", "7").answers == "sale:{demo}:answers"
    names = [name for keys in process(items=3).keys_of.values() for name in vars(keys).values()]
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1
    assert len(set(names)) == len(names) - 2 * 3  # the prefix, the answers and the key that does not exist are shared
