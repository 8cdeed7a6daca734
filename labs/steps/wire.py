"""What a stepped purchase sends: each command to Redis and each request to etcd, in the thread that makes the purchase.

redis-py and gRPC are wrapped in this process, once a purchase is stepped by its commands; to all other threads the
wrappers do nothing. A script and a transaction are one command each. A pipeline that is no transaction is sent command
by command, as others may come between. A command that blocks waits for a moment, and is sent again later.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import cache
from typing import Any, Protocol

import grpc
import grpc._channel
import redis
from redis.connection import AbstractConnection, Connection

from app.sales.redis_client import LUA, Script

_OF_THE_CONNECTION = {"HELLO", "CLIENT", "AUTH", "SELECT", "PING", "SCRIPT", "UNWATCH"}
_READS = re.compile(
    r"M?GET|GETRANGE|STRLEN|EXISTS|TYPE|P?TTL|P?EXPIRETIME|KEYS|SCAN|TIME|WATCH|LLEN|LRANGE|LINDEX|LPOS"
    r"|H(?:M?GET|GETALL|EXISTS|LEN|KEYS|VALS)|SCARD|SM?ISMEMBER|SMEMBERS|Z(?:CARD|COUNT|M?SCORE|RANGE|RANGEBYSCORE)"
    r"|ZREV(?:RANGE|RANK)|ZRANK|XLEN|XRANGE|XREAD|P?(?:UN)?SUBSCRIBE|(?:EVAL|EVALSHA|FCALL)_RO"
)
_BLOCK = {"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX"}  # the last argument says how long
_BLOCK_S = 0.005  # instead
life_ms = 0  # of a key that expires, where it is to outlive all schedules
_KEEP = """
for _, name in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', name)
  if left > 0 and left < ARGV[1] / 2 then redis.call('PEXPIRE', name, ARGV[1]) end
end
"""
etcd_writes = 0  # requests of this process that may change something in etcd, counted when they begin and when they end
_LONGEST = 48  # of a word of a command, as it is shown
_LONG_ID = re.compile(r"[0-9a-f]{32,}")


class Fate(Enum):
    """What becomes of a command that was sent, and done."""

    ANSWERED = "answered"
    LOST = "lost"  # the connection breaks before its answer comes
    KILLED = "killed"  # its process does


class Stepped(Protocol):
    """Whose commands these are."""

    def sending(self, command: str, *, writes: bool) -> Fate:
        """It is about to be sent; may block, or raise."""

    def answered(self, answer: str) -> None: ...

    def pauses(self) -> None:
        """It is about to try once more."""


_here = threading.local()


@contextmanager
def sent_by(stepped: Stepped) -> Iterator[None]:
    """Inside, what this thread sends is told to `stepped`."""
    wrap()
    _here.stepped, _here.awaited, _here.following = stepped, 0, deque()
    try:
        yield
    finally:
        _here.stepped = None


@cache
def wrap() -> None:
    """Have redis-py and gRPC tell what they send; to threads that step nothing, only requests to etcd are counted."""
    send: Any
    receive: Any
    send, receive = AbstractConnection.send_packed_command, Connection.read_response
    readable: Any = AbstractConnection.can_read

    def send_packed_command(connection: Any, command: Any, check_health: bool = True) -> Any:
        stepped: Stepped | None = getattr(_here, "stepped", None)
        groups = _groups(command) if stepped else []
        if stepped is None or not groups:
            return send(connection, command, check_health)
        _here.awaited, _here.following = 0, deque(groups)
        return send_next(connection, check_health)

    def send_next(connection: Any, check_health: bool = True) -> Any:
        commands, packed = _here.group = _here.following.popleft()
        writes = not all(_READS.fullmatch(words[0].upper()) for words in commands)
        _here.fate = _here.stepped.sending(_in_words(commands), writes=writes)
        _here.awaited = len(commands)
        parts = connection.pack_command(*commands[0][:-1], _BLOCK_S) if _blocks(commands) else [packed]
        _here.keeps = bool(life_ms and writes and (commands[0][0].upper() != "MULTI" or _ends(commands)))
        kept = connection.pack_command("EVAL", _KEEP, 0, life_ms) if _here.keeps else []
        return send(connection, [*parts, *kept], check_health)

    def receive_last(connection: Any, *args: Any, **options: Any) -> Any:
        """The answer to a command, and if it is the last one, that to `_KEEP` behind it, which is dropped."""
        _here.awaited -= 1
        try:
            return receive(connection, *args, **options)
        finally:
            if not _here.awaited and _here.keeps:
                receive(connection)

    def read_response(connection: Any, *args: Any, **options: Any) -> Any:
        stepped = getattr(_here, "stepped", None)
        if stepped is None:
            return receive(connection, *args, **options)
        if not _here.awaited and _here.following:
            send_next(connection)
        if not _here.awaited:
            message = receive(connection, *args, **options)  # to a subscriber
            stepped.answered(_text(message))
            return message
        if _here.fate is not Fate.ANSWERED:
            while _here.awaited:
                receive_last(connection, *args, **options)
            _here.following.clear()
            _end_if_killed()
            connection.disconnect()
            stepped.answered("lost")
            raise redis.ConnectionError("the answer was lost")
        try:
            answer = receive_last(connection, *args, **options)
        except Exception as error:
            stepped.answered(f"({type(error).__name__})")
            raise
        stepped.answered(_text(answer))
        if answer is None and _blocks(_here.group[0]):
            stepped.pauses()
            _here.following.appendleft(_here.group)
            return read_response(connection, *args, **options)
        return answer

    def can_read(connection: Any, timeout: float = 0) -> Any:
        is_stepped = getattr(_here, "stepped", None) is not None and timeout
        return readable(connection, min(timeout, _BLOCK_S) if is_stepped else timeout)

    AbstractConnection.send_packed_command = send_packed_command  # type: ignore[method-assign]
    Connection.read_response = read_response  # type: ignore[method-assign, assignment]
    AbstractConnection.can_read = can_read  # type: ignore[method-assign, assignment]
    unary = grpc._channel._UnaryUnaryMultiCallable
    for name in ("__call__", "with_call", "future"):
        setattr(unary, name, _stepping(getattr(unary, name), name))


def _stepping(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    def stepping(method: Any, request: Any, *args: Any, **options: Any) -> Any:
        stepped = getattr(_here, "stepped", None)
        path = method._method.decode() if isinstance(method._method, bytes) else method._method
        command = path.rpartition("/")[2]
        writes = command not in ("Range", "LeaseTimeToLive", "Status", "MemberList")
        fate = stepped.sending(_request_in_words(command, request), writes=writes) if stepped else Fate.ANSWERED
        _count(writes)
        try:
            answer = call(method, request, *args, **options)
        except grpc.RpcError as error:
            if stepped:
                stepped.answered(f"({error.code()})")
            raise
        finally:
            _count(writes)
        if name == "future" and writes:
            answer.add_done_callback(_count)
        if stepped is None:
            return answer
        if name == "future":
            stepped.answered("later")
            return answer
        if fate is not Fate.ANSWERED:
            _here.fate = fate
            _end_if_killed()
            stepped.answered("lost")
            raise AnswerLost
        puts = command == "Put" or any(each.HasField("request_put") for each in getattr(request, "success", ()))
        stepped.answered(_response_in_words(answer[0] if name == "with_call" else answer, with_revision=puts))
        return answer

    return stepping


def _count(writes: object) -> None:
    global etcd_writes
    etcd_writes += bool(writes)


class AnswerLost(grpc.RpcError):  # type: ignore[misc]
    """The connection has ended before an answer came; etcd has done what it was asked for."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the answer was lost"


def _end_if_killed() -> None:
    if _here.fate is Fate.KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


def _groups(packed: Any) -> list[tuple[list[list[str]], bytes]]:
    """The commands that redis-py is about to write, with their bytes: those of a transaction together."""
    text = packed if isinstance(packed, (bytes, str)) else b"".join(packed)
    text = text.encode() if isinstance(text, str) else text
    groups: list[tuple[list[list[str]], bytes]] = []
    at, is_open = 0, False
    while at < len(text):
        begins = at
        end = text.index(b"\r\n", at)
        count, at, words = int(text[at + 1 : end]), end + 2, []
        for _ in range(count):
            end = text.index(b"\r\n", at)
            size, at = int(text[at + 1 : end]), end + 2
            words.append(text[at : at + size].decode(errors="replace"))
            at += size + 2
        name = words[0].upper()
        if name in _OF_THE_CONNECTION:
            return []
        if is_open:
            commands, sent = groups.pop()
            groups.append(([*commands, words], sent + text[begins:at]))
        else:
            groups.append(([words], text[begins:at]))
        is_open = name == "MULTI" or (is_open and name != "EXEC")
    return groups


def _ends(commands: list[list[str]]) -> bool:
    return commands[-1][0].upper() == "EXEC"


def _blocks(commands: list[list[str]]) -> bool:
    return commands[0][0].upper() in _BLOCK


def _in_words(commands: list[list[str]]) -> str:
    """As `redis-cli` would write them."""
    return "; ".join(" ".join(_word(word) for word in _named(words)) for words in commands)


def _named(words: list[str]) -> list[str]:
    if words[0] == "EVALSHA":
        return [words[0], _scripts().get(words[1], words[1][:8]), *words[2:]]
    return [words[0], "SCRIPT", *words[2:]] if words[0] == "EVAL" else words


@cache
def _scripts() -> dict[str, str]:
    return {script.sha: name for name, script in shop_scripts().items()}


@cache
def shop_scripts() -> dict[str, Script]:
    """Those of the shop, by the names of their files."""
    return {path.name: Script(path) for path in sorted(LUA.glob("*.lua")) if path.name != "common.lua"}


def _word(word: str) -> str:
    shown = word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..."
    return f"'{shown}'" if not shown or " " in shown or shown != word else shown


def _text(answer: Any) -> str:
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(map(_text, answer))}]"
    return "nil" if answer is None else str(answer)


def _request_in_words(command: str, request: Any) -> str:
    """Such as ``Txn if create(KEY) = 0 then put KEY``: what matters of a request."""
    if command != "Txn":
        return f"{command} {_key_of(request)}".strip()
    compared = ", ".join(f"{_COMPARED[each.target]}({_key_of(each)})" for each in request.compare)
    done = ", ".join(
        f"{each.WhichOneof('request')[8:]} {_key_of(getattr(each, each.WhichOneof('request')))}"
        for each in request.success
    )
    return f"Txn if {compared or 'true'} then {done or 'nothing'}"


_COMPARED = {0: "version", 1: "create", 2: "mod", 3: "value", 4: "lease"}


def _key_of(request: Any) -> str:
    key = getattr(request, "key", b"")
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key)


def _response_in_words(response: Any, *, with_revision: bool) -> str:
    """Without the header, but for the revision of what was put, which is a token."""
    shown = type(response)()
    shown.CopyFrom(response)
    revision = (
        f"revision: {response.header.revision} " if with_revision and getattr(response, "succeeded", True) else ""
    )
    shown.ClearField("header")
    if hasattr(shown, "kvs"):  # in the order of their names, which may be chance
        shown.kvs.sort(key=lambda kv: kv.create_revision)
    for each in getattr(shown, "responses", []):
        kind = each.WhichOneof("response")
        getattr(each, kind).ClearField("header")
        if kind == "response_range":
            each.response_range.kvs.sort(key=lambda kv: kv.create_revision)
    return revision + " ".join(str(shown).split())
