"""Fencing tokens: numbers that rise from holder to holder, so that the resource can refuse a late holder.

A token is the create revision of the key that holds in etcd, or, where a process hands one hold to many turns, the pair
(create revision, turn). Holds never share a create revision, so all of them have one order. In JSON a pair is a list,
which compares as it should: ``[7, 2] < [7, 10] < [8, 1]``.
"""

from __future__ import annotations

from lock import CohortToken

Token = int | CohortToken
Tokens = dict[str, Token]  # of the items of a cart


def fence_text(token: Token | None) -> str:
    """A token as Redis compares it: as text, because Lua's numbers are exact only up to 2^53; empty for none."""
    if token is None:
        return ""
    if isinstance(token, CohortToken):
        return f"{token.create_revision:020d}.{token.turn:010d}"
    return f"{token:020d}"


def shown(text: str) -> str:
    """The result of `fence_text` for people, without the zeros."""
    return ".".join(str(int(number)) for number in text.split("."))
