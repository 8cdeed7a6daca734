"""The calls of gRPC, with requests and answers in words. Those of the shop's own threads are only counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import grpc
import grpc._channel

from labs.steps.wire import TO_ETCD, Fate, end_if_killed, etcd, wire


class AnswerLost(grpc.RpcError):  # type: ignore[misc]
    """The connection has ended before an answer came; etcd has done what it was asked for."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the answer was lost"


@cache
def wrap() -> None:
    """Have the calls that have one answer tell what they send."""
    unary = grpc._channel._UnaryUnaryMultiCallable
    for name in ("__call__", "with_call", "future"):
        setattr(unary, name, _stepping(getattr(unary, name), name))


def _stepping(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    def stepping(callable: Any, message: Any, *args: Any, **options: Any) -> Any:
        path = callable._method.decode() if isinstance(callable._method, bytes) else callable._method
        method = etcd.method_of(path)
        if (stepped := wire.owner()) is None:
            return _counted(call, name, callable, message, *args, **options)
        with stepped.exchange():
            fate = stepped.sending(etcd.told(method, etcd.of_message(message)), writes=etcd.writes(method))
            try:
                answer = _counted(call, name, callable, message, *args, **options)
            except grpc.RpcError as error:
                stepped.answered(f"({error.code()})")
                raise
            if name == "future":
                stepped.answered("later")
                return answer
            if fate is not Fate.ANSWERED:
                end_if_killed(fate)
                stepped.answered("lost")
                raise AnswerLost
            found = answer[0] if name == "with_call" else answer
            stepped.answered(etcd.answer(method, etcd.of_message(found), found.header.revision))
            return answer

    return stepping


def _counted(call: Callable[..., Any], name: str, callable: Any, *args: Any, **options: Any) -> Any:
    if not wire.etcd or any(callable._target.endswith(b":%d" % port) for port in wire.etcd):
        wire.sent[TO_ETCD] += 1
    answer = call(callable, *args, **options)
    if name == "future":
        wire.pending += 1
        answer.add_done_callback(_note_answer)
    return answer


def _note_answer(_: Any) -> None:
    wire.pending -= 1
