"""etcd's requests in words, and as the `etcdctl` commands that do the same, for a POSIX shell.

What only a run can know (the id of a lease, the create revision of a key) stands in variables of the shell, which the
commands themselves set. A key may hold any byte: what the shell, `printf` or etcdctl could misread is written in octal
or hexadecimal, so that each command is one line. Comments quote keys as well: zsh takes a pasted one for a command.
"""

import shlex
from typing import Any

from lock.etcd.transport import rpc
from lock.model import cut, printable


class EtcdctlScript:
    """Turns requests into commands, and remembers which variable stands for what."""

    def __init__(self) -> None:
        self._leases: dict[str, str] = {}  # id in hexadecimal, as it stands in keys, -> variable
        self._tokens: dict[int, str] = {}  # create revision -> variable
        self._watches: list[str] = []

    def step(self, who: str, request: Any, response: Any) -> list[str]:
        """What this request of contender `who` did and what for, and the command lines that do it."""
        match request:
            case rpc.LeaseGrantRequest():
                self._leases[f"{response.ID:x}"] = f"$LEASE_{who}"
                purpose = f"lease {response.ID:x}: what is bound to it goes after {response.TTL} s without a renewal"
                command = f"LEASE_{who}=$(etcdctl lease grant {request.TTL} | awk '{{ print $2 }}')"
            case rpc.LeaseKeepAliveRequest():
                purpose = f"{response.TTL} s from now. A session renews after a third of them"
                command = f"etcdctl lease keep-alive --once {self._leases[f'{request.ID:x}']}"
            case rpc.LeaseRevokeRequest():
                purpose = "the session is over, and whatever is bound to its lease is gone"
                command = f"etcdctl lease revoke {self._leases[f'{request.ID:x}']}"
            case rpc.RangeRequest():
                purpose = f"lists the queue: {response.count} there, the smallest create revision of those holds"
                command = f"etcdctl get --prefix {self._word(request.key)}"
            case rpc.WatchRequest() if response.created:
                self._watches.append(f"$WATCH_{who}")
                watched = request.create_request
                prefix = "--prefix " * bool(watched.range_end)
                what = "the queue, once for all threads of the process" if prefix else "the key before its own"
                purpose = f"watches {what}"
                command = f"etcdctl watch {prefix}{self._word(watched.key)} & WATCH_{who}=$!"
            case rpc.WatchRequest():
                return [f"is told: {', '.join(map(_event, response.events))}"]
            case rpc.TxnRequest() if len(request.compare) == 1:
                return self._txn(who, request, response)
            case _:
                return ["the session looks after its keys"]
        return [purpose, command]

    def end(self) -> list[str]:
        """What ends the watches, which run in the background."""
        return [f"kill {' '.join(self._watches)}"] if self._watches else []

    def _txn(self, who: str, request: Any, response: Any) -> list[str]:
        [condition], first = request.compare, request.success[0]
        key, revision = shown(condition.key), response.header.revision
        token = self._tokens.get(condition.create_revision, condition.create_revision)
        success, failure = [[self._operation(each) for each in branch] for branch in (request.success, request.failure)]
        compare = f'create({self._literal(condition.key)}) = "{token}"'
        lines = ["etcdctl txn <<EOF", compare, "", *success, "", *failure, "", "EOF"]
        if first.HasField("request_range"):
            own, before = (each.response_range.kvs for each in response.responses)
            place = "a key stands before it" if before else "no key stands before it, so it holds"
            return [f"reads {shown(own[0].key) if own else 'its key'}: {place}", *lines]
        if first.HasField("request_delete_range"):
            return [f"frees the lock: deletes {key} if its create revision is {condition.create_revision}", *lines]
        put = first.request_put
        self._tokens[revision] = f"$TOKEN_{who}"
        find = "awk '/^\"CreateRevision\"/ { print $NF }'"
        lines.append(f"TOKEN_{who}=$(etcdctl get {self._word(put.key)} -w fields | {find})")
        counts = [each.response_range.count for each in response.responses if each.HasField("response_range")]
        place = "holds, for it is alone" if counts == [1] else "others stand before it"
        return [f"queues {key}, unless it exists: create revision {revision}; {place}", *lines]

    def _operation(self, operation: Any) -> str:
        kind = operation.WhichOneof("request")
        body = getattr(operation, kind)
        key = self._literal(body.key)
        if kind == "request_put":
            return f"put {key} {self._literal(body.value)} --lease={self._leases[f'{body.lease:x}']}"
        if kind == "request_delete_range":
            return f"del {key}"
        order = f"--sort-by=CREATE --order=DESCEND --limit={body.limit} " * (body.sort_order == body.DESCEND)
        return f"get {'--prefix ' * bool(body.range_end)}{'--count-only ' * body.count_only}{order}{key}"

    def _literal(self, text: bytes) -> str:
        """A text in etcdctl's own quotes, which are those of Go, inside a here-document."""
        escaped = _escaped(text, "\\$`!", r"\x%02x").replace('"', r"\"")
        return self._variables(f'"{escaped}"'.replace("\\", r"\\"))

    def _word(self, text: bytes) -> str:
        return self._variables(shell_word(text))

    def _variables(self, text: str) -> str:
        for lease, variable in self._leases.items():
            text = text.replace(lease, variable)
        return text


def shell_word(text: bytes) -> str:
    """A text as one word of the shell, on one line. (A line break at its end is lost: no key of a queue has one.)"""
    escaped = _escaped(text, '\\$`!"', r"\0%03o")
    return f'"{escaped}"' if "\\" not in escaped else f'"$(printf %b "{escaped}")"'


def shown(text: bytes) -> str:
    """The beginning of a text, quoted for a comment."""
    return shlex.quote(printable(cut(text.decode("utf-8", "surrogateescape"))))


def _event(event: Any) -> str:
    return f"{'DELETE' if event.type == event.DELETE else 'PUT'} {shown(event.kv.key)}"


def _escaped(text: bytes, special: str, form: str) -> str:
    """The text, with each byte of what is special or cannot be printed in this form."""
    return "".join(
        char
        if char.isprintable() and char not in special
        else "".join(form % byte for byte in char.encode("utf-8", "surrogateescape"))
        for char in text.decode("utf-8", "surrogateescape")
    )
