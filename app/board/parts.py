"""What the board's routes work with, one of each for the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import current_app

from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.board.sources.locust import RushClient
from app.board.sources.stack_client import StackClient
from app.sales.sale import Sale


@dataclass(frozen=True)
class BoardParts:
    """The parts of one board.

    Attributes:
        stack: `None` without a local stack.
        sale: which the board resets without an instance.
        links: to the pages of labs.
    """

    settings: BoardSettings
    sampler: Sampler
    locust: RushClient
    stack: StackClient | None
    sale: Sale
    links: Sequence[Mapping[str, Any]]


def of_board() -> BoardParts:
    """The parts of the application that serves this request."""
    board: BoardParts = current_app.extensions["board"]
    return board
