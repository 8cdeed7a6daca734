"""The calls of gRPC, with requests and answers in words. Those of the shop's own threads are only counted."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from functools import cache
from typing import Any

import grpc
import grpc._channel
from google.protobuf.json_format import MessageToDict

from labs.steps.wire import TO_ETCD, Fate, end_if_killed, wire

_READS = {"Range", "LeaseTimeToLive", "LeaseLeases", "Status", "MemberList"}
_BYTES = {"key", "value", "range_end"}


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
        method = path.rpartition("/")[2]
        if (stepped := wire.owner()) is None:
            return _counted(call, name, callable, message, *args, **options)
        with stepped.exchange():
            fate = stepped.sending(_told(method, _of_message(message)), writes=method not in _READS)
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
            stepped.answered(_answer(method, _of_message(found), found.header.revision))
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


def _of_message(message: Any) -> Any:
    """A request or an answer, without headers and with texts for bytes. Keys are by age: their names may be chance."""
    return _legible(MessageToDict(message, preserving_proto_field_name=True))


def _legible(told: Any, name: str = "") -> Any:
    if isinstance(told, dict):
        return {name: _legible(each, name) for name, each in told.items() if name != "header"}
    if isinstance(told, list):
        found = [_legible(each) for each in told]
        return sorted(found, key=lambda kv: int(kv.get("create_revision", 0))) if name == "kvs" else found
    return b64decode(told).decode(errors="replace") if name in _BYTES else told


def _told(method: str, request: Any) -> str:
    """Such as ``Txn if create(KEY) then put KEY``: what matters of a request."""
    if method != "Txn":
        return f"{method} {request.get('key', '')}".strip()
    compared = [
        f"{each.get('target', 'VERSION').lower()}({each.get('key', '')})" for each in request.get("compare", [])
    ]
    done = [
        f"{kind.removeprefix('request_')} {each[kind].get('key', '')}"
        for each in request.get("success", [])
        for kind in each
    ]
    return f"Txn if {', '.join(compared) or 'true'} then {', '.join(done) or 'nothing'}"


def _answer(method: str, answer: Any, revision: Any) -> str:
    """With the revision of what was put, which is a token."""
    has_put = method == "Put" or any("response_put" in each for each in answer.get("responses", []))
    return f"revision: {revision} {answer}" if has_put else str(answer)
