"""Measures the lock library alone."""
