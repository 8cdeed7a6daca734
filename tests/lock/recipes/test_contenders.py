"""Contenders: who holds and who waits, in words, whichever client wrote the key."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lock import Contender
from lock.model import KeyValue

ESCAPES = "lager-\x1b[31mgrün\x1b]0;title\x07\u202e\udcff"


def identity(session: str) -> bytes:
    """What a key of ours says."""
    who = {"session": session, "host": socket.gethostname(), "pid": os.getpid()}
    return json.dumps(who | {"thread": threading.current_thread().name, "since": time.time()}).encode()


def key(value: bytes, *, lease_id: int = 0xABC) -> KeyValue:
    return KeyValue("shop/abc-1", value, 7, 9, lease_id)


def test_a_key_names_its_owner() -> None:
    """Session, host, process and thread are told, with the time of queueing; of another client's key, what it tells.

    Go's client, etcdctl and the server's lock RPC leave the value empty; other text is quoted.
    """
    contender = Contender.of(key(identity("shop-8080")), ttl_s=5)
    owner = f"shop-8080 (host {socket.gethostname()}, pid {os.getpid()}, thread {threading.current_thread().name})"
    assert contender.session == "shop-8080"
    assert contender.owner == owner
    assert contender.queued_s is not None
    assert 0 <= contender.queued_s < 5
    assert (contender.key, contender.token, contender.lease_id, contender.ttl_s) == ("shop/abc-1", 7, 0xABC, 5)
    assert str(contender) == f"{owner}, key 'shop/abc-1', lease abc with 5 s of its TTL left"
    others = Contender.of(key(b""), ttl_s=-1)
    assert (others.owner, others.session, others.queued_s) == ("another client", None, None)
    assert str(others).endswith("with 0 s of its TTL left")  # etcd says -1 of a lease that is gone
    assert "'host-7'" in Contender.of(key(b"host-7")).owner


@settings(max_examples=40)
@given(
    st.binary()
    | st.recursive(st.none() | st.floats() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
@example(b'{"session":1,"host":1,"pid":1,"thread":1,"since":1' + b"0" * 400 + b"}")
@example(b'{"session":"s","host":"h","pid":1,"thread":"t","since":9e9}')  # of a clock that is ahead
@example(b'{"session":1,"host":1,"pid":1,"thread":1,"since":null}')
@example(b'{"session":1,"host":1,"pid":1,"thread":1,"since":"soon"}')
@example(b'{"session":1,"host":1,"pid":1,"thread":1,"since":NaN}')
@example(b'{"session":1,"host":1,"pid":1,"thread":1,"since":-1e999}')
@example(b"[" * 100_000)
@example(ESCAPES.encode("utf-8", "replace"))
@example(identity(ESCAPES))
@example(b"1" * 5_000)
def test_no_value_whatsoever_is_an_error(value: bytes) -> None:
    """Another client's key cannot break the message of a timeout, nor the JSON that a contender is put into.

    Its escapes neither paint the log nor set a title; letters of all languages stay as they are.
    """
    contender = Contender.of(key(value))
    assert contender.owner
    assert str(contender).isprintable()
    assert (contender.session or "").isprintable()
    assert "lager-" not in contender.owner or r"lager-\x1b[31mgrün" in contender.owner
    assert contender.queued_s is None or 0 <= contender.queued_s < math.inf


def test_a_long_value_is_cut() -> None:
    """A megabyte in another client's key is not copied into every message and log line."""
    named = Contender.of(key(identity("x" * 1_000_000)))
    for told in (str(Contender.of(key(b"x" * 1_000_000))), str(named), named.session or ""):
        assert 0 < len(told) < 300
