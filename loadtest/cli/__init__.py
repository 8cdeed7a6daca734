"""Every command of `python -m loadtest`; nothing imports it."""
