"""The stock of an item on several shards, the transfers that move items between them, and Redis as a cluster."""
