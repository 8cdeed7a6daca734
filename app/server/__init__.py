"""Additions to gunicorn's worker: its threads, and a heartbeat for the board."""
