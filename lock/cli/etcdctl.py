"""etcd's requests in words, and as the `etcdctl` commands that do the same, for a POSIX shell.

What only a run can know (the id of a lease, the create revision of a key) stands in variables of the shell, which the
commands themselves set.
"""

from __future__ import annotations

import json
from typing import Any

from lock.etcd.transport import rpc


class Script:
    """Turns requests into commands, and remembers which variable stands for what."""

    def __init__(self) -> None:
        self._leases: dict[str, str] = {}  # id in hexadecimal, as it stands in keys, -> variable
        self._tokens: dict[int, str] = {}  # create revision -> variable
        self._watches: list[str] = []

    def step(self, who: str, request: Any, response: Any) -> list[str]:
        """What this request of contender `who` did and what for, and the command lines that do it."""
        match request:
            case rpc.LeaseGrantRequest():
                self._leases[f"{response.ID:x}"] = f"LEASE_{who}"
                return [
                    f"lease {response.ID:x}: what is bound to it goes after {response.TTL} s without a renewal",
                    f"LEASE_{who}=$(etcdctl lease grant {request.TTL} | awk '{{ print $2 }}')",
                ]
            case rpc.LeaseKeepAliveRequest():
                return [
                    f"{response.TTL} s from now; a session renews after a third of them",
                    f"etcdctl lease keep-alive --once ${self._leases[f'{request.ID:x}']}",
                ]
            case rpc.LeaseRevokeRequest():
                return [
                    "the session is over, and whatever is bound to its lease is gone",
                    f"etcdctl lease revoke ${self._leases[f'{request.ID:x}']}",
                ]
            case rpc.RangeRequest():
                return [
                    f"lists the queue: {len(response.kvs)} there; of those the smallest create revision holds",
                    f"etcdctl get --prefix {self._word(request.key)}",
                ]
            case rpc.WatchRequest() if response.created:
                self._watches.append(f"$WATCH_{who}")
                return [
                    "watches the queue, once for all threads of the process",
                    f"etcdctl watch --prefix {self._word(request.create_request.key)} & WATCH_{who}=$!",
                ]
            case rpc.WatchRequest():
                return [f"is told: {', '.join(map(_event, response.events))}"]
            case rpc.TxnRequest():
                return self._txn(who, request, response)
        return ["the session looks after its keys"]

    def end(self) -> list[str]:
        """What ends the watches, which run in the background."""
        return [f"kill {' '.join(self._watches)}"]

    def _txn(self, who: str, request: Any, response: Any) -> list[str]:
        compares = [f'create({self._quoted(each.key)}) = "{self._revision(each)}"' for each in request.compare]
        success = [self._operation(each) for each in request.success]
        failure = [self._operation(each) for each in request.failure]
        lines = ["etcdctl txn <<EOF", *compares, "", *success, "", *failure, "", "EOF"]
        put, condition = request.success[0].request_put, request.compare[0]
        if not put.key:
            key, token = condition.key.decode(), condition.create_revision
            return [f"frees the lock: deletes {key} if its create revision is {token}", *lines]
        revision, word = response.header.revision, self._word(put.key)
        self._tokens[revision] = f"$TOKEN_{who}"
        lines.append(f"TOKEN_{who}=$(etcdctl get {word} -w fields | awk '/CreateRevision/ {{ print $NF }}')")
        first = [each.response_range.count for each in response.responses if each.HasField("response_range")] == [1]
        place = "holds, for it is alone" if first else "others stand before it"
        return [f"queues {put.key.decode()}, unless it exists: create revision {revision}; {place}", *lines]

    def _operation(self, operation: Any) -> str:
        kind = operation.WhichOneof("request")
        body = getattr(operation, kind)
        key = self._quoted(body.key)
        if kind == "request_put":
            return f"put {key} {self._quoted(body.value)} --lease=${self._leases[f'{body.lease:x}']}"
        if kind == "request_range" and body.count_only:
            return f"get --prefix --count-only {key}"
        return f"{'get' if kind == 'request_range' else 'del'} {key}"

    def _revision(self, compare: Any) -> str:
        return self._tokens.get(compare.create_revision, str(compare.create_revision))

    def _quoted(self, text: bytes) -> str:
        """A text in etcdctl's own quotes, inside a here-document."""
        return self._variables(_escaped(json.dumps(text.decode(), ensure_ascii=False), "\\$`"))

    def _word(self, text: bytes) -> str:
        """A text as one word of the shell."""
        return self._variables(f'"{_escaped(text.decode(), chr(92) + "$`" + chr(34))}"')

    def _variables(self, text: str) -> str:
        for lease, variable in self._leases.items():
            text = text.replace(lease, f"${variable}")
        return text


def _event(event: Any) -> str:
    return f"{'DELETE' if event.type == event.DELETE else 'PUT'} {event.kv.key.decode('utf-8', 'replace')}"


def _escaped(text: str, special: str) -> str:
    return "".join(f"\\{char}" if char in special else char for char in text)
