"""The wrong locks, one in each module."""
