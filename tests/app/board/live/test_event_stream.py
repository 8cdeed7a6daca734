"""The stream of events: what a viewer receives, how many viewers there may be, and how a stream ends."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from app.board.live import event_stream as module
from app.board.live.event_stream import KEPT, EventStream, TooManyViewers

EVERYTHING = ("hello", {"everything": True})


def events(chunk: bytes) -> list[tuple[str, Any]]:
    found = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


@pytest.fixture
def fresh() -> EventStream:
    """A stream for two viewers, before its first event."""
    made: EventStream = EventStream(lambda: (made.number, {"everything": True}), viewers=2)
    return made


@pytest.fixture
def source(fresh: EventStream) -> EventStream:
    fresh.publish("sample", {"n": 0})
    return fresh


def test_a_newcomer_receives_everything_and_then_what_is_new(source: EventStream) -> None:
    """The first event is hello; each later one comes once, with any text in it."""
    name = "Ada\n\nevent: hello\ndata: {}\r\r<script>\u2028 ☃"
    source.publish("sample", {"n": 1})
    stream = source.view()
    assert events(next(stream)) == [EVERYTHING]
    source.publish("sample", {"n": 2})
    source.publish("sample", {"buyer": name})
    assert events(next(stream)) == [("sample", {"n": 2}), ("sample", {"buyer": name})]
    source.publish("sample", {"n": 3})
    assert events(next(stream)) == [("sample", {"n": 3})]
    for number in range(KEPT + 1):
        source.publish("sample", {"n": number})
    assert events(next(stream)) == [EVERYTHING], "more than is kept: a snapshot instead of a gap"


def test_nothing_is_sent_before_the_first_look(fresh: EventStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the first sample, and while nothing is new, comments show that the connection stands."""
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    stream = fresh.view()
    assert next(stream) == b": still here\n\n"
    fresh.publish("sample", {"n": 1})
    assert events(next(stream)) == [EVERYTHING]
    assert next(stream) == b": still here\n\n"


def test_there_is_room_for_so_many_viewers(source: EventStream) -> None:
    """One viewer too many is refused at once; each viewer that hangs up makes room for one."""
    first, second = source.view(), source.view()
    next(second)
    with pytest.raises(TooManyViewers, match="2 viewers"):
        source.view()
    first.close()  # type: ignore[attr-defined]
    first.close()  # type: ignore[attr-defined]
    assert source.viewers == 1
    source.view()
    with pytest.raises(TooManyViewers):
        source.view()


def test_a_stream_ends(source: EventStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its lifetime, or when the source is closed: of viewers who wait, and of those who come later."""
    stream, late = source.view(), source.view()
    next(stream)
    waiting = threading.Thread(target=lambda: list(stream))
    waiting.start()
    source.close()
    waiting.join(20)
    assert not waiting.is_alive()
    assert list(late) == []
    monkeypatch.setattr(module, "LIFETIME_S", 0.0)
    assert list(EventStream(lambda: (0, {}), viewers=1).view()) == []
