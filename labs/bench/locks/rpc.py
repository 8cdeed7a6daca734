"""The lock RPC of the etcd server, which jetcd and others call; etcd3 has no stubs for it."""

from __future__ import annotations

import grpc

import lock  # noqa: F401  (before etcdrpc: it lets etcd3 run on current protobuf)

from etcd3.etcdrpc import PutRequest  # isort: skip
from etcd3.etcdrpc.kv_pb2 import KeyValue  # isort: skip


class LockRpc:
    """Locks a name by the server's own queue. Each lock needs a lease of its own: a shared one would share the key."""

    # On the wire, LockRequest and UnlockRequest are like a KeyValue, and LockResponse is like a PutRequest.

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint)
        self._lock = self._channel.unary_unary("/v3lockpb.Lock/Lock")
        self._unlock = self._channel.unary_unary("/v3lockpb.Lock/Unlock")

    def lock(self, name: str, lease_id: int, *, timeout: float) -> bytes:
        """Wait for the lock; the key that holds it. Raises grpc.RpcError."""
        request = KeyValue(key=name.encode(), create_revision=lease_id)
        answer = self._lock(request.SerializeToString(), timeout=timeout)
        return bytes(PutRequest.FromString(answer).value)

    def unlock(self, key: bytes, *, timeout: float) -> None:
        self._unlock(KeyValue(key=key).SerializeToString(), timeout=timeout)

    def close(self) -> None:
        self._channel.close()
