"""Measurements: each compares its candidates within one run, for nothing else can be compared on a shared machine."""
