"""The stream of events: what a viewer is told, how many there may be, and how it ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.board.live import event_stream as module
from app.board.live.event_stream import KEPT, EventStream, TooManyViewers


def greeting(**options: Any) -> EventStream:
    """A stream that tells newcomers everything."""
    made: EventStream = EventStream(lambda: (made.number, {"everything": True}), **{"viewers": 2, **options})
    return made


def events(chunk: bytes) -> list[tuple[str, Any]]:
    """Name and data of each event in what a viewer was sent."""
    found = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def listen(source: EventStream) -> Iterator[bytes]:
    """A viewer's stream, after the line that says how soon to come again."""
    stream = source.view()
    assert next(stream) == b"retry: 1000\n\n"
    return stream


@pytest.fixture
def source() -> EventStream:
    """A stream that has been told something, and says so to newcomers."""
    source = greeting()
    source.publish("sample", {"n": 0})
    return source


@pytest.fixture
def stream(source: EventStream) -> Iterator[bytes]:
    """A viewer who was told everything."""
    stream = listen(source)
    assert events(next(stream)) == [("hello", {"everything": True})]
    return stream


def test_a_newcomer_is_told_everything_and_then_what_is_new(source: EventStream) -> None:
    """The first event is hello; each later one comes once, whatever text is in it."""
    name = "Ada\n\nevent: hello\ndata: {}\r\r<script>\u2028 ☃"
    source.publish("sample", {"n": 1})
    stream = listen(source)
    assert events(next(stream)) == [("hello", {"everything": True})]
    source.publish("sample", {"n": 2})
    source.publish("sample", {"buyer": name})
    assert events(next(stream)) == [("sample", {"n": 2}), ("sample", {"buyer": name})]


def test_nothing_is_told_before_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer of a board that has only just begun gets comments until the first sample, and is told everything then.

    The comments show that the connection stands.
    """
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    source = greeting()
    stream = listen(source)
    assert next(stream) == b": still here\n\n"
    source.publish("sample", {"n": 1})
    assert [name for name, _ in events(next(stream))] == ["hello"]
    assert next(stream) == b": still here\n\n"


def test_a_viewer_that_is_too_slow_is_told_everything(source: EventStream, stream: Iterator[bytes]) -> None:
    """A viewer who missed more than is kept gets hello instead of a gap."""
    for number in range(KEPT + 1):
        source.publish("sample", {"n": number})
    assert [name for name, _ in events(next(stream))] == ["hello"]


def test_a_stream_has_an_end() -> None:
    """After its lifetime a stream is over, even if its viewer stays."""
    assert list(greeting(lifetime=0.0).view()) == [b"retry: 1000\n\n"]


def test_there_is_room_for_so_many_viewers(source: EventStream) -> None:
    """One viewer too many is refused at once; a place is free again when one hangs up, once for each."""
    first, _ = source.view(), listen(source)
    with pytest.raises(TooManyViewers, match="2 viewers"):
        source.view()
    first.close()  # type: ignore[attr-defined]
    first.close()  # type: ignore[attr-defined]
    assert source.viewers == 1
    source.view()
    with pytest.raises(TooManyViewers):
        source.view()


def test_closing_ends_every_stream_at_once() -> None:
    """Also of a viewer who waits for news, or comes when it is closed already."""
    source = greeting(viewers=3)
    source.publish("sample", {"n": 0})
    stream, late = listen(source), listen(source)
    next(stream), next(late)
    waiting = threading.Thread(target=lambda: list(stream))
    waiting.start()
    source.close()
    waiting.join(timeout=2)
    assert not waiting.is_alive()
    began = time.monotonic()
    assert list(late) == list(source.view())[1:] == []
    assert time.monotonic() - began < 1


def test_a_snapshot_holds_up_no_other_viewer() -> None:
    """While the snapshot for a newcomer is made, which may take long, the others are told what is new."""
    making, made = threading.Event(), threading.Event()

    def snapshot() -> tuple[int, Any]:
        number = slow.number
        if number > 1:
            making.set()
            assert made.wait(10)
        return number, {}

    slow = EventStream(snapshot, viewers=2)
    slow.publish("sample", {"n": 1})
    stream = listen(slow)
    next(stream)
    slow.publish("sample", {"n": 2})
    newcomer = threading.Thread(target=next, args=(listen(slow),))
    newcomer.start()
    assert making.wait(10)
    assert [data for _, data in events(next(stream))] == [{"n": 2}]
    slow.publish("sample", {"n": 3})
    assert [data for _, data in events(next(stream))] == [{"n": 3}]
    made.set()
    newcomer.join()
