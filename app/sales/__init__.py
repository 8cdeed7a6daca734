"""What a purchase does to Redis: the sale, its scripts, ledger, tokens, refusals and the sold-out check."""
