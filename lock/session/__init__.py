"""One lease per process, what depends on it, and the threads that drive its core."""
