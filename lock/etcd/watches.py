"""All watches of a client in one stream, which one thread reads.

The thread and the stream begin with the first watch and end with the last, or a little later, for the next one is often
soon. etcd answers the requests of a stream in their order, which is how a new watch learns its id: etcd3's generated
code has no field to choose one.

Error handling: whatever ends the stream, it is opened anew with all watches, at another endpoint if one does not
answer, after a pause that grows. etcd answers a watch that it refuses with the id 0, and the live watch 0 is silent
from then on (etcd pull request 14296), so a refusal ends the stream, too; so does a watch that is not answered in time.
A watch that is refused again, with a new token, ends with `EtcdDenied`; the others go on.

A listener is called by the reading thread, with no lock held, and has to be quick and must not raise.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from lock.errors import EtcdDenied, EtcdError, EtcdUnavailable
from lock.etcd.grpc_errors import CLOSED, out_of_reach, translate
from lock.etcd.requests import Requests
from lock.etcd.transport import Endpoint, Transport, notify, rpc
from lock.model import Event
from lock.runtime.clock import now

logger = logging.getLogger(__name__)

_RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0)

Update = list[Event] | EtcdError
"""What a watch tells: a batch of changes, which never splits a revision; empty when etcd begins to watch, so that what
is read after it misses nothing. After an error changes are missed until it watches again; never, after `EtcdDenied`.
"""
Listener = Callable[[Update], object]


@dataclass(eq=False)
class Watch:
    """One prefix that is watched, or one key.

    A listener that has read what it watches at the revision `known` misses nothing if etcd is no further when it begins
    to watch: it tells all that is later. (etcd's header has the revision of that moment, or a later one.) Then it is
    not told so.
    """

    prefix: str
    listener: Listener
    is_key: bool = False
    known: int = 0
    id: int | None = None
    refusals: int = 0
    is_wanted: bool = True

    def covers(self, key: str) -> bool:
        return key == self.prefix or (not self.is_key and key.startswith(self.prefix))

    def fail(self, error: EtcdError) -> None:
        """Changes may be missed from now on."""
        self.known = 0
        self.listener(error)


class Watches:
    """The watches of one client."""

    idle_s = 5.0  # how long a stream stays open without a watch

    def __init__(self, transport: Transport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests
        self._watches: set[Watch] = set()
        self._stream: _Stream | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()
        self._idle_since = 0.0
        self._lock = threading.Lock()
        transport.left_listeners.add(self._leave)

    def add(self, prefix: str, listener: Listener, *, is_key: bool = False, known: int = 0) -> Watch:
        watch = Watch(prefix, listener, is_key, known)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._follow, name="lock-watch", daemon=True)
                thread.start()  # or raise, before anything is kept; it waits for our lock
                self._thread = thread
            self._watches.add(watch)
            if self._stream is not None:
                self._stream.create(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Watch it no more; a call of its listener may be under way. After the last one `check` has to be called."""
        with self._lock:
            watch.is_wanted, watch.listener = False, _forgotten
            self._watches.discard(watch)
            self._idle_since = now()
            if self._stream is not None:
                self._stream.cancel(watch)
        self._changed.set()

    def check(self, *, is_done: bool = False) -> float:
        """End a stream that is idle, for long or because its user is done, or where etcd owes an answer for too long.

        To be called now and then; when to call it again, if no watch is removed before.
        """
        with self._lock:
            idle_s = 0.0 if is_done else self.idle_s
            stream, idle_until = self._stream, math.inf if self._watches else self._idle_since + idle_s
        if stream is None or stream.is_over:
            return math.inf
        if now() >= idle_until:
            stream.end()
            return math.inf
        if stream.overdue(self._transport.timeout):
            stream.end(EtcdUnavailable("a watch was not answered in time"))
            self._transport.leave(stream.endpoint)
        return idle_until

    def _leave(self, endpoint: Endpoint) -> None:
        stream = self._stream
        if stream is not None and stream.endpoint is endpoint:
            stream.end(EtcdUnavailable(f"{endpoint.address} did not answer: another endpoint is asked"))

    def _follow(self) -> None:
        failures = 0
        while True:
            with self._lock:
                if not self._watches:
                    self._thread = None
                    return
            error, was_answered = self._read()
            if error is None:
                continue
            failures = 0 if was_answered else failures + 1
            with self._lock:
                watches = list(self._watches)
            logger.info("watching %d prefixes again after: %s", len(watches), error)
            for watch in watches:
                watch.fail(error)
            if self._transport.closed:
                with self._lock:
                    self._watches.clear()
                continue
            self._changed.clear()
            self._changed.wait(_RETRY_S[min(failures, len(_RETRY_S) - 1)])

    def _read(self) -> tuple[EtcdError | None, bool]:
        """Read one stream to its end: why it ended, if not for lack of watches; and whether etcd has answered."""
        endpoint = self._transport.endpoints[self._transport.current]
        stream = _Stream(endpoint, self._requests)
        try:
            token = self._transport.log_in(endpoint)
            stream.open(self._transport.metadata(token))
            with self._lock:
                if not self._watches:  # any more
                    return None, False
                self._stream = stream
                for watch in self._watches:
                    stream.create(watch)
            for response in stream.responses():
                self._receive(stream, response)
            return stream.failure, stream.was_answered
        except grpc.RpcError as error:
            error.__traceback__ = None
            if stream.is_over:
                return stream.failure, stream.was_answered
            if self._transport.login is not None:  # of a token that has expired, a watch says but "permission denied"
                self._transport.login.forget()
            if out_of_reach(error):
                self._transport.leave(endpoint)
            return translate(error), stream.was_answered
        except TimeoutError as error:
            return EtcdUnavailable(str(error)), False
        except ValueError:
            return EtcdUnavailable(CLOSED), False
        except Exception as error:
            logger.exception("watching again")
            return EtcdError(f"the watch has failed: {error!r}"), False
        finally:
            with self._lock:
                self._stream = None
            stream.end()
            stream.call = None

    def _receive(self, stream: _Stream, response: Any) -> None:
        with self._lock:
            watch = stream.find(response)
            is_wanted = watch is not None and watch.is_wanted
        if watch is None:
            return
        if self._transport.observer is not None:
            notify(self._transport.observer, stream.request(watch), response, now() - stream.began)
        if response.created and response.canceled:
            self._refused(stream, watch, response.cancel_reason)
        elif response.created:
            watch.refusals = 0
            if is_wanted and response.header.revision != watch.known:
                watch.listener([])
        elif response.canceled:
            reason = response.cancel_reason or "compacted"
            logger.info("watching %s again: etcd ended the watch: %s", watch.prefix, reason)
            watch.fail(EtcdError(f"etcd ended the watch: {reason}"))
            with self._lock:
                if watch in self._watches:
                    stream.create(watch)
        elif is_wanted and response.events:
            decode = self._requests.decode
            watch.listener([Event(each.type == each.DELETE, decode(each.kv)) for each in response.events])

    def _refused(self, stream: _Stream, watch: Watch, reason: str) -> None:
        if self._transport.login is not None:
            self._transport.login.forget()
        watch.refusals += 1
        if watch.refusals > 1:
            with self._lock:
                self._watches.discard(watch)
            watch.listener(EtcdDenied(f"etcd ended the watch of {watch.prefix!r}: {reason or 'denied'}"))
        stream.end(EtcdError("etcd refused a watch, so its stream is not to be trusted"))


class _Stream:
    """One stream of requests and responses; not thread-safe but for `end`."""

    def __init__(self, endpoint: Endpoint, requests: Requests) -> None:
        self.endpoint = endpoint
        self.call: Any = None
        self.failure: EtcdError | None = None
        self.is_over = False
        self.was_answered = False
        self._requests = requests
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._created: deque[tuple[Watch, float]] = deque()  # in the order of the answers to come
        self._by_id: dict[int, Watch] = {}
        self.began = now()

    def open(self, metadata: Any) -> None:
        self.call = self.endpoint.watch.Watch(iter(self._outbox.get, None), metadata=metadata)
        if self.is_over:  # while there was no call to be cancelled
            self.call.cancel()

    def create(self, watch: Watch) -> None:
        watch.id = None
        self._created.append((watch, now()))
        self._outbox.put(self.request(watch))

    def cancel(self, watch: Watch) -> None:
        """Have etcd end a watch; one that is not answered yet is ended when it is."""
        if watch.id is not None:
            self._by_id.pop(watch.id, None)
            self._cancel(watch.id)

    def request(self, watch: Watch) -> Any:
        start, end = self._requests.range(watch.prefix, is_key=watch.is_key)
        return rpc.WatchRequest(create_request=rpc.WatchCreateRequest(key=start, range_end=end))

    def find(self, response: Any) -> Watch | None:
        """The watch that a response belongs to; `None` if it was removed."""
        self.was_answered = True
        if not response.created:
            if response.canceled:
                return self._by_id.pop(response.watch_id, None)
            return self._by_id.get(response.watch_id)
        if not self._created:
            return None
        watch, _ = self._created.popleft()
        if response.canceled:
            return watch
        if not watch.is_wanted:
            self._cancel(response.watch_id)
            return None
        watch.id = response.watch_id
        self._by_id[response.watch_id] = watch
        return watch

    def overdue(self, timeout: float) -> bool:
        with contextlib.suppress(IndexError):
            return now() - self._created[0][1] > timeout
        return False

    def responses(self) -> Iterator[Any]:
        yield from self.call
        if not self.is_over:
            self.failure = EtcdUnavailable("etcd ended the stream")

    def end(self, failure: EtcdError | None = None) -> None:
        """End it; its reader stops. Never waits."""
        if not self.is_over:
            self.failure = failure
        self.is_over = True
        self._outbox.put(None)
        call = self.call
        if call is not None:
            call.cancel()

    def _cancel(self, watch_id: int) -> None:
        self._outbox.put(rpc.WatchRequest(cancel_request=rpc.WatchCancelRequest(watch_id=watch_id)))


def _forgotten(_: Update) -> None:
    """What listens to a watch that was removed."""
