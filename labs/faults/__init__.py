"""The sale under faults: what is done to it, what was expected of each guard, and what came of it."""
