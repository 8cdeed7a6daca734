"""Requests to etcd and its answers in words."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from google.protobuf.json_format import MessageToDict

_READS = {"Range", "LeaseTimeToLive", "LeaseLeases", "Status", "MemberList"}
_BYTES = {"key", "value", "range_end"}


def of_message(message: Any) -> Any:
    """A request or an answer, without headers and with texts for bytes. Keys are by age: their names may be chance."""
    return _legible(MessageToDict(message, preserving_proto_field_name=True))


def _legible(told: Any, name: str = "") -> Any:
    if isinstance(told, dict):
        return {name: _legible(each, name) for name, each in told.items() if name != "header"}
    if isinstance(told, list):
        found = [_legible(each) for each in told]
        return sorted(found, key=lambda kv: int(kv.get("create_revision", 0))) if name == "kvs" else found
    return b64decode(told).decode(errors="replace") if name in _BYTES else told


def writes(method: str) -> bool:
    """Whether a request can change something."""
    return method not in _READS


def told(method: str, request: Any) -> str:
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


def answer(method: str, answer: Any, revision: Any) -> str:
    """With the revision of what was put, which is a token."""
    has_put = method == "Put" or any("response_put" in each for each in answer.get("responses", []))
    return f"revision: {revision} {answer}" if has_put else str(answer)
