"""Renewals of leases, which etcd answers with a stream.

gRPC's object for a call takes a lock when it is deleted. If the interpreter deletes it as it ends, one of gRPC's own
threads may have been stopped with that lock, and the program hangs. So it is let go as soon as the stream is over, also
where it is the error: its traceback refers to it.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from lock.errors import EtcdUnavailable


def first_answer(method: Callable[..., Any]) -> Callable[..., Any]:
    """A call with one answer: a renewal every few seconds is not worth a stream to look after."""

    def call(request: Any, **options: Any) -> Any:
        over = threading.Event()
        stream = method(_one_request(request, over), **options)
        try:
            return next(stream)
        except StopIteration:
            raise EtcdUnavailable("etcd ended the stream without an answer") from None
        except grpc.RpcError as error:
            raise error.with_traceback(None) from None
        finally:
            over.set()
            stream.cancel()
            del stream

    return call


def _one_request(request: Any, over: threading.Event) -> Iterator[Any]:
    """All that is said on a stream, which is `over` when that is set."""
    yield request
    over.wait()  # returning would half-close the stream, which etcd's gRPC proxy takes for its end
