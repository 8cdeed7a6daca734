"""The stock of an item on several shards, and the transfers that move items between them."""
