"""The calls of gRPC. Those of the shop's own threads are only counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import grpc
import grpc._channel

from labs.steps.wire import TO_ETCD, Fate, end_if_killed, wire, words, writing


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
    def stepping(method: Any, request: Any, *args: Any, **options: Any) -> Any:
        path = method._method.decode() if isinstance(method._method, bytes) else method._method
        asked = path.rpartition("/")[2]
        writes, stepped = words.etcd_writes(asked), wire.owner()
        if stepped is None:
            return _counted(call, name, writes, method, request, *args, **options)
        with stepped.exchange():
            fate = stepped.sending(words.of_etcd(asked, request), writes=writes, keys=words.keys_in_etcd(request))
            try:
                answer = _counted(call, name, writes, method, request, *args, **options)
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
            stepped.answered(words.answer_of_etcd(asked, request, answer[0] if name == "with_call" else answer))
            return answer

    return stepping


def _counted(call: Callable[..., Any], name: str, writes: bool, method: Any, *args: Any, **options: Any) -> Any:
    if not wire.etcd or any(method._target.endswith(b":%d" % port) for port in wire.etcd):
        wire.sent[TO_ETCD] += 1
    with writing(writes):
        answer = call(method, *args, **options)
    if name == "future":
        wire.pending += 1
        answer.add_done_callback(lambda _: _note_answer(writes))
    return answer


def _note_answer(writes: bool) -> None:
    wire.pending -= 1
    wire.etcd_writes += writes
