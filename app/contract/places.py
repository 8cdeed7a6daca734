"""Keys for a part of an item's stock beside the sale's own keys, in a place that a lab adds.

The sale notes its places in Redis (`Keys.places`), where every reader finds them. Items sold: the sum of all ledgers.
Items left: the sum of all stocks, plus items that were sent and have not arrived.
"""

from __future__ import annotations


class PlaceKeys:
    """Redis keys of one item in a further place; a key that does not exist counts nothing.

    Attributes:
        prefix: of all keys of the place, with the hash tag.
        generation: generation of the sale to which the other keys belong. If it differs from the sale's, the place has
            lost its data.
        stock, lucky, orders: as in `app.contract.keys.Keys`.
        sent, arrived: items that left for another place, and that came from another place.
        previous, previous_orders: as in `Keys`, for the last generation here; the stock in `previous` is items left
            plus sent minus arrived.
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
