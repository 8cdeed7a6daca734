"""Calls that etcd answers with a stream.

gRPC's object for a call takes a lock when it is deleted. If the interpreter deletes it as it ends, one of gRPC's own
threads may have been stopped with that lock, and the program hangs. So it is let go as soon as the stream is over, also
where it is the error: its traceback refers to it.

Error handling: what an observer raises is logged. It ends neither the call nor the thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from lock.errors import EtcdError, EtcdUnavailable
from lock.etcd.grpc_errors import CLOSED, out_of_reach, translate
from lock.model import Event, KeyValue
from lock.runtime.clock import now

logger = logging.getLogger(__name__)


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


Observer = Callable[[str, Any, Any, float], None]
"""See `lock.connect`."""


def tell(observer: Observer | None, request: Any, response: Any, seconds: float) -> None:
    """Tell the observer, if there is one, of an answer."""
    if observer is None:
        return
    call = request.DESCRIPTOR.name.removesuffix("Request")
    try:
        observer(call, request, response, seconds)
    except BaseException:  # SystemExit as well
        logger.exception("an observer of etcd's answers failed at %s", call)


class Watch:
    """Changes under one prefix, read by one thread and closed by any.

    `start` makes the gRPC call from an iterator of requests; `decode` reads a key. `failed` is called when the watch
    has failed, before the reader is told, with whether the endpoint is out of reach.
    """

    def __init__(
        self,
        start: Callable[[Iterator[Any]], Any],
        request: Any,
        decode: Callable[[Any], KeyValue],
        failed: Callable[[bool], object],
        observer: Observer | None,
    ) -> None:
        self._closed = threading.Event()
        self._start = start
        self._failed = failed
        self._request = request
        self._decode = decode
        self._observer = observer
        self._call: Any = None
        self._failure: EtcdError | None = None

    def __iter__(self) -> Iterator[list[Event]]:
        """Each batch of changes, until `close`; a batch never splits a revision.

        The first one is empty and says that the watch stands: what is listed after it misses nothing. (Etcd delivers at
        once to a watch of the present, but looks only every 100 ms after one that starts at an older revision.)
        EtcdError: etcd ended it, `EtcdUnavailable` if it was the connection: list again.
        """
        try:
            if not self._closed.is_set():
                yield from self._changes()
        except EtcdError:
            self._failed(False)
            raise
        except TimeoutError as error:
            raise EtcdUnavailable(str(error)) from error
        except ValueError as error:
            raise EtcdUnavailable(CLOSED) from error
        except grpc.RpcError as error:
            error.__traceback__ = None
            if not self._closed.is_set():
                self._failed(out_of_reach(error))
                raise translate(error) from error
        finally:
            self.close()
            self._call = None
        if self._failure is not None:
            raise self._failure

    def close(self, failure: EtcdError | None = None) -> None:
        """End the watch; its reader stops, or gets the failure. Never waits."""
        if not self._closed.is_set():
            self._failure = failure
        self._closed.set()
        call = self._call
        if call is not None:
            call.cancel()

    def _changes(self) -> Iterator[list[Event]]:
        self._call = self._start(_one_request(self._request, self._closed))
        if self._closed.is_set():  # while there was no call to be cancelled
            self._call.cancel()
        sent = now()
        for response in self._call:
            tell(self._observer, self._request, response, now() - sent)
            if response.canceled:
                raise EtcdError(f"etcd ended the watch: {response.cancel_reason or 'compacted'}")
            yield [self._event(event) for event in response.events]
        if not self._closed.is_set():
            raise EtcdUnavailable("etcd ended the stream")

    def _event(self, event: Any) -> Event:
        return Event(event.type == event.DELETE, self._decode(event.kv))


def _one_request(request: Any, over: threading.Event) -> Iterator[Any]:
    """All that is said on a stream, which is `over` when that is set."""
    yield request
    over.wait()  # returning would half-close the stream, which etcd's gRPC proxy takes for its end
