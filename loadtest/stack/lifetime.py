"""What runs inside ``with``, and nowhere else."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Lifetime:
    """Started when ``with`` is entered, and gone when it is left; of a start that fails, nothing is left either."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        """Stop what has not come up."""
        self.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.abort()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
