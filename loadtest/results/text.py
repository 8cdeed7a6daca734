"""Numbers in sentences."""

from __future__ import annotations


def pluralize(number: int, noun: str) -> str:
    """The number with its noun, whose plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
