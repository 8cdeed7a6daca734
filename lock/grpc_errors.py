"""gRPC's errors, made ours."""

from __future__ import annotations

import grpc

from lock.errors import EtcdDenied, EtcdError, EtcdUnavailable, LeaseNotFound

TRY_ELSEWHERE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
CLOSED = "this etcd client was closed"
_DENIED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
_DENIED_WORDS = ("authentication failed", "user name is empty")  # etcd calls these invalid arguments


def translate(error: grpc.RpcError) -> EtcdError:
    """The error of this package that says the same."""
    code, said = error.code(), words(error)
    if code in TRY_ELSEWHERE:
        return EtcdUnavailable(f"etcd did not answer: {said}")
    if code == grpc.StatusCode.CANCELLED:
        return EtcdUnavailable(CLOSED)
    if code == grpc.StatusCode.NOT_FOUND and "lease" in said:
        return LeaseNotFound(said)
    if code in _DENIED or any(words in said for words in _DENIED_WORDS):
        return EtcdDenied(f"{said}: check the etcd user, its password and its roles")
    return EtcdError(said)


def words(error: grpc.RpcError) -> str:
    """What gRPC or etcd said."""
    return str(error.details() or error.code().name.lower())


def token_expired(error: grpc.RpcError) -> bool:
    """Whether it helps to log in again."""
    return "invalid auth token" in words(error) or "revision of auth store is old" in words(error)
