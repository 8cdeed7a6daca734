"""Items that are sold and paid for: the payment is in another system, and may come too late."""
