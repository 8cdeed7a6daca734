"""max_hold: a hold that lasts too long gives itself up, whatever its body does."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from lock import Client, HoldExpired, LockLost, Mutex, NotHeld, Session
from tests.support.lock import WAIT_S, keys
from tests.support.waiting import wait_until

SHORT_S = 0.3


def test_a_hold_that_lasts_too_long_gives_itself_up(client: Client, session: Session, stranger: Session) -> None:
    """After max_hold `lost` is set, the key is deleted, the next one holds, and the session lives on."""
    hold = Mutex(session, "max-hold/long", max_hold=SHORT_S).acquire(timeout=WAIT_S)
    assert 0.0 < hold.remaining() <= SHORT_S
    with Mutex(stranger, "max-hold/long").acquire(timeout=WAIT_S) as following:
        assert following.token > hold.token
        assert hold.lost.is_set()
        assert hold.remaining() == 0.0
        with pytest.raises(HoldExpired, match="max-hold/long"):
            hold.ensure()
        with pytest.raises(HoldExpired):
            hold.release()
        following.ensure()
    assert not session.lost.is_set()
    assert keys(client, "max-hold/long") == []


def test_ensure_does_not_rely_on_the_timer(session: Session, name: str) -> None:
    """Its thread may be late on a busy machine, or have been frozen with the process: the time is looked at as well."""
    hold = Mutex(session, name, max_hold=0.2).acquire(timeout=WAIT_S)
    assert hold._timer is not None
    session.timers.cancel(hold._timer)
    assert not hold.lost.wait(0.3)
    assert hold.remaining() == 0.0
    with pytest.raises(HoldExpired):
        hold.ensure()
    with pytest.raises(HoldExpired):
        hold.release()


def test_expiry_is_told_to_listeners_and_is_a_kind_of_loss(session: Session) -> None:
    """on_lost is called once, and code that handles LockLost handles HoldExpired too."""
    told = threading.Event()
    hold = Mutex(session, "max-hold/told", max_hold=SHORT_S).acquire(timeout=WAIT_S)
    hold.on_lost(told.set)
    assert told.wait(WAIT_S)
    with pytest.raises(LockLost):
        hold.release()
    with pytest.raises(NotHeld):
        hold.release()


def test_a_hold_released_in_time_is_not_touched(client: Client, session: Session) -> None:
    """The timer of a hold that was released does nothing to the next hold, and does not stay behind."""
    mutex = Mutex(session, "max-hold/in-time", max_hold=WAIT_S)
    for _ in range(20):
        with mutex.acquire(timeout=WAIT_S) as hold:
            hold.ensure()
    assert session.timers._scheduler.empty()


def test_many_holds_share_one_thread(client: Client, session: Session) -> None:
    """Several holds with max_hold at once have one timer thread, and all give themselves up."""
    holds = [Mutex(session, f"max-hold/many/{number}", max_hold=1.0).try_acquire() for number in range(5)]
    timers = [thread for thread in threading.enumerate() if thread.name == "lock-timers"]
    assert len(timers) == 1
    for hold in holds:
        assert hold is not None
        assert hold.lost.wait(WAIT_S)
        with pytest.raises(HoldExpired):
            hold.release()
    wait_until(lambda: not client.get_prefix("max-hold/many/").keys)


@pytest.mark.parametrize("never", [math.inf, 1e12])
def test_a_max_hold_that_is_far_away_disturbs_no_other(session: Session, name: str, never: float) -> None:
    """However long a hold may last, those that may not are given up in time."""
    with Mutex(session, f"{name}/long", max_hold=never).acquire(timeout=WAIT_S) as long:
        short = Mutex(session, f"{name}/short", max_hold=SHORT_S).acquire(timeout=WAIT_S)
        assert short.lost.wait(WAIT_S)
        with pytest.raises(HoldExpired):
            short.release()
        long.ensure()


def test_the_timer_ends_with_the_session(client: Client) -> None:
    """Closing the session ends the timer's thread, though a hold with max_hold is still there."""
    with Session(client, ttl=5) as session:
        hold = Mutex(session, "max-hold/session", max_hold=WAIT_S).acquire(timeout=WAIT_S)
        thread = session.timers._thread
        assert thread is not None
    assert not thread.is_alive()
    with pytest.raises(LockLost):
        hold.release()


@pytest.mark.parametrize("max_hold", [0, -1.0, float("nan"), "3"])
def test_a_max_hold_that_makes_no_sense_is_refused(session: Session, max_hold: Any) -> None:
    """The error says what to give."""
    with pytest.raises((TypeError, ValueError), match="max_hold is seconds, more than 0"):
        Mutex(session, "max-hold/bad", max_hold=max_hold)
