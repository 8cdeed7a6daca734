"""One lease, what depends on it, and the janitor that leaves nothing behind."""
