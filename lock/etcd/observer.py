"""The hook that is told of every answer of etcd.

Error handling: what an observer raises is logged. It ends neither the call nor the thread, which may be the one that
keeps the lease alive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

Observer = Callable[[str, Any, Any, float], None]
"""Told of each answer: the call's name in etcd's API (``Txn``), request, response (protobuf messages), and the seconds
since the request was sent. Of a watch it is told each answer. It runs in the calling thread, so it should be quick.
"""


def tell(observer: Observer | None, request: Any, response: Any, seconds: float) -> None:
    """Tell the observer, if there is one, of an answer."""
    if observer is None:
        return
    call = request.DESCRIPTOR.name.removesuffix("Request")
    try:
        observer(call, request, response, seconds)
    except BaseException:  # SystemExit as well
        logger.exception("an observer of etcd's answers failed at %s", call)
