"""Metrics, and the log of critical sections."""
