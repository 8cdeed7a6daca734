"""The sale that is broken on purpose: local processes or containers."""
