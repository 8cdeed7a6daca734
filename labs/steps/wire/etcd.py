"""Requests to etcd and its answers in words, by gRPC and by HTTP alike: protobuf tells both as the same JSON."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

from google.protobuf.json_format import MessageToDict

_READS = {"Range", "LeaseTimeToLive", "LeaseLeases", "Status", "MemberList"}
_OF_THE_GATEWAY = {  # methods, by the ends of their paths
    "txn": "Txn", "put": "Put", "range": "Range", "deleterange": "DeleteRange",
    "grant": "LeaseGrant", "revoke": "LeaseRevoke", "timetolive": "LeaseTimeToLive", "leases": "LeaseLeases",
}  # fmt: skip
_BYTES = {"key", "value", "range_end"}


def of_message(message: Any) -> Any:
    """A request or an answer of gRPC."""
    return of_json(MessageToDict(message, preserving_proto_field_name=True))


def of_json(told: Any, name: str = "") -> Any:
    """One of the gateway: without headers, with texts for bytes; keys by their age, as their names may be chance."""
    if isinstance(told, dict):
        named = {re.sub("(?<=[a-z])[A-Z]", lambda found: f"_{found[0].lower()}", each): each for each in told}
        return {name: of_json(told[each], name) for name, each in named.items() if name != "header"}
    if isinstance(told, list):
        found = [of_json(each) for each in told]
        return sorted(found, key=lambda kv: int(kv.get("create_revision", 0))) if name == "kvs" else found
    return b64decode(told).decode(errors="replace") if name in _BYTES else told


def method_of(path: str) -> str:
    """The method of a path of gRPC or of the gateway."""
    name = path.rpartition("/")[2]
    return _OF_THE_GATEWAY.get(name, name[:1].upper() + name[1:])


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
