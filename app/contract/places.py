"""Where the stock of an item lies beside the sale's own keys: in places that a lab adds.

The sale notes its places in Redis (`Keys.places`), so every reader finds them there. What was sold is the sum of all
ledgers; what is left is the sum of all stocks, and of what was sent and has not arrived.
"""

from __future__ import annotations


class PlaceKeys:
    """Redis keys of one item in a further place; a key that does not exist counts nothing.

    Attributes:
        prefix: what all of them begin with; the hash tag is in it.
        generation: of the sale to which the rest belongs. If it is another one, the place has lost its data.
        stock, lucky, orders: as those of `app.contract.keys.Keys`.
        sent, arrived: items that have left this place for another one, and that came from another one.
        previous, previous_orders: the last generation here, as `Keys` has them; `previous` has what is accounted for
            here as its stock: left, and sent less arrived.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.generation = prefix + "generation"
        self.stock = prefix + "stock"
        self.lucky = prefix + "lucky"
        self.orders = prefix + "orders"
        self.sent = prefix + "sent"
        self.arrived = prefix + "arrived"
        self.previous = prefix + "previous"
        self.previous_orders = prefix + "previous-orders"
