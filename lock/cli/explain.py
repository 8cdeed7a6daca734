"""What each request to etcd is for, in one line."""

from __future__ import annotations

from typing import Any

from lock.etcd.transport import rpc


def explain(request: Any, response: Any) -> str:
    """What the request has done, and what for."""
    match request:
        case rpc.LeaseGrantRequest():
            return f"lease {response.ID:x}: what is bound to it goes after {response.TTL} s without a renewal"
        case rpc.LeaseKeepAliveRequest():
            return f"{response.TTL} s from now; a session renews after a third of them"
        case rpc.LeaseRevokeRequest():
            return "the session is over, and whatever is bound to its lease is gone"
        case rpc.RangeRequest():
            return f"lists the queue: {len(response.kvs)} there; of those the smallest create revision holds"
        case rpc.WatchRequest():
            return _watched(response)
    return _transaction(request, response)


def _watched(response: Any) -> str:
    if response.created:
        return "watches the queue, once for all threads of the process"
    told = [f"{'DELETE' if event.type == event.DELETE else 'PUT'} {_text(event.kv.key)}" for event in response.events]
    return f"is told: {', '.join(told)}"


def _transaction(request: Any, response: Any) -> str:
    put, condition = request.success[0].request_put, request.compare[0]
    if put.key:
        return f"queues {_text(put.key)}, unless it exists: create revision {response.header.revision}"
    return f"frees the lock: deletes {_text(condition.key)} if its create revision is {condition.create_revision}"


def _text(key: bytes) -> str:
    return key.decode("utf-8", "replace")
