"""What is locked by `acquire`, and never by itself."""

from __future__ import annotations

from typing import NoReturn


class Lockable:
    """Something with `acquire`; ``with`` takes the result of that."""

    def __enter__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} by itself is not a hold: write `with mutex.acquire(timeout=...) as hold:`")

    def __exit__(self, *exc_info: object) -> None:
        """``with`` asks for it before it enters."""
