"""Carts of several items: one lock for each, bought all or nothing."""
