"""gRPC's errors, made ours."""

import grpc

from lock.errors import EtcdDenied, EtcdError, EtcdUnavailable, LeaseNotFound

CLOSED = "this etcd client was closed"
_OUT_OF_REACH = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
_OUT_OF_TIME = ("context deadline exceeded", "context canceled")  # of a member without a quorum, in etcd 3.5
_DENIED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
_NO_USER = "user name is empty"
_DENIED_WORDS = ("authentication failed", _NO_USER)  # etcd calls these invalid arguments
# Of a token from before a change of the roles, 3.5.1 speaks in other words than later versions (etcd issue 13300).
_LOG_IN = ("invalid auth token", "revision in header is old", "revision of auth store is old", _NO_USER)


def translate(error: grpc.RpcError) -> EtcdError:
    """The error of this package that says the same."""
    code, said = error.code(), words(error)
    if out_of_reach(error):
        return EtcdUnavailable(f"etcd did not answer: {said}")
    if code == grpc.StatusCode.CANCELLED:
        return EtcdUnavailable(CLOSED)
    if code == grpc.StatusCode.NOT_FOUND and "lease" in said:
        return LeaseNotFound(said)
    if code in _DENIED or any(words in said for words in _DENIED_WORDS):
        return EtcdDenied(f"{said}: check the etcd user, its password and its roles")
    return EtcdError(said)


def out_of_reach(error: grpc.RpcError) -> bool:
    """Whether it was not answered, so that another endpoint may answer; what was asked may be done all the same."""
    return error.code() in _OUT_OF_REACH or words(error) in _OUT_OF_TIME


def refused(error: grpc.RpcError) -> bool:
    """Whether etcd itself has said that it did not do what was asked, and never will."""
    return not out_of_reach(error) and words(error).startswith("etcdserver: ")


def words(error: grpc.RpcError) -> str:
    """What gRPC or etcd said."""
    return str(error.details() or error.code().name.lower())


def token_expired(error: grpc.RpcError) -> bool:
    """Whether it helps to log in again, or for the first time."""
    return any(sign in words(error) for sign in _LOG_IN)


def anybody_may(error: grpc.RpcError) -> bool:
    """Whether logging in is neither possible nor needed: authentication is not turned on, or not any more."""
    return "authentication is not enabled" in words(error)
