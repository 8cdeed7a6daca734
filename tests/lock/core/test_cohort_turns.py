"""Turns of one hold: their order and bounds, what lingers, who leaves, and what each call answers in each stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lock.core.acquisition import Send, Sleep
from lock.core.cohort import OLDEST_S, Bounds, Cohort, CohortTurn
from lock.core.messages import TimeToLive
from lock.core.queue import Stage
from lock.errors import EtcdDenied, EtcdUnavailable, HoldExpired, LockCancelled, LockTimeout, NotHeld, SessionLost
from lock.model import Event, LeaseStatus
from tests.lock.core.sessions import Session
from tests.lock.core.small_world import Etcd

LINGER_S = 0.2
ENOUGH, CUT = LockCancelled("enough"), EtcdUnavailable("cut")


class Turns(Session):
    """A session with a cohort, and how often its hold was given up."""

    def __init__(self, batch: int = 9, slice: float = 9.0, linger: float = 0.0, etcd: Etcd | None = None) -> None:
        super().__init__(etcd or Etcd(), 1)
        self.cohort = Cohort(self.core, "m", "m/", Bounds(batch, slice, linger), 1.0)
        self.given_up = 0
        self.cohort.given_up = self.give_up

    def give_up(self) -> None:
        self.given_up += 1

    def turn(self, now: float = 0.0, deadline: float = math.inf, **options: Any) -> CohortTurn:
        return CohortTurn(self.cohort, now, deadline=deadline, **options)

    def held(self, now: float = 0.0, **options: Any) -> CohortTurn:
        turn = self.turn(now, **options)
        self.go(turn, now)
        assert turn.is_held
        return turn

    def waiting(self, now: float = 0.0, **options: Any) -> CohortTurn:
        turn = self.turn(now, **options)
        assert isinstance(self.go(turn, now), Sleep)
        return turn

    def lingering(self) -> CohortTurn:
        """The last turn of a hold that lingers, alone in a queue that is listed."""
        turn = self.held()
        waits = self.waiting()
        assert turn.end(0.0) is None
        self.work(0.0)
        assert waits.end(0.0) is None
        assert self.cohort.is_lingering
        return waits

    def go(self, turn: Any, now: float = 0.0) -> Sleep | None:
        return super().go(turn, now)


def sent(turn: CohortTurn, now: float = 0.0) -> Any:
    """The request that it sends now, and how long that may take."""
    step = turn.next(now)
    assert isinstance(step, Send)
    return step


@pytest.fixture
def turns() -> Turns:
    return Turns()


def other_waits(etcd: Etcd) -> Session:
    """Another session that waits, or holds."""
    other = Session(etcd, 2)
    other.go(other.acquisition())
    return other


def test_turns_come_one_after_the_other(turns: Turns) -> None:
    """By one key, in the order in which they came; to whoever is next it is told, and the last gives the hold up."""
    first, second, third = turns.held(where="first"), turns.waiting(where="second"), turns.waiting()
    ticket = first.ticket
    assert ticket is not None
    assert (turns.cohort in turns.core.observers, third.next(0.0), second.is_held) == (True, Sleep(math.inf), False)
    ticket.loss = turns  # type: ignore[assignment]
    turns.core.outbox.changes.clear()
    assert first.end(0.0) is None
    assert (turns.core.outbox.changes, ticket.loss, ticket.where) == ([second], None, "second")
    assert (second.next(0.0), second.number, second.ticket, turns.given_up) == (None, 2, ticket, 0)
    turns.work(0.0)
    assert second.end(0.0) is None
    assert third.end(0.0) is ticket
    third.leave(0.0)
    turns.core.poll(3.0)
    assert ticket.stage is Stage.HELD  # until its driver releases it
    assert (turns.cohort.turn, turns.given_up, turns.cohort in turns.core.observers) == (None, 1, False)


@pytest.mark.parametrize("is_contended", [False, True])
@pytest.mark.parametrize(
    ("batch", "slice", "now", "is_over"),
    [(3, 9.0, 0.5, False), (2, 9.0, 0.5, True), (9, 0.5, 0.4, False), (9, 0.5, 0.5, True)],
)
def test_a_bound_ends_a_hold_where_another_process_waits(
    is_contended: bool, batch: int, slice: float, now: float, is_over: bool
) -> None:
    """The batch or the slice, from the turn on by which that is known; the next one in line then queues anew."""
    turns = Turns(batch, slice)
    first, second, third = turns.held(), turns.waiting(), turns.waiting()
    assert (first.end(0.0), turns.cohort.is_contended) == (None, False)
    if is_contended:
        other_waits(turns.etcd)
    turns.work(0.0)
    turns.core.outbox.changes.clear()
    ticket = second.end(now)
    assert (ticket is not None, third.is_held) == (is_contended and is_over, not (is_contended and is_over))
    if ticket is not None:
        assert (turns.core.outbox.changes, turns.cohort in turns.core.observers) == ([third], True)


@pytest.mark.parametrize(
    "why",
    [
        pytest.param(lambda turn: OLDEST_S, id="old"),
        pytest.param(lambda turn: turn.fence(0.0), id="fence"),
        pytest.param(lambda turn: turn.cohort.core.renewed(0.0, 0, 0.0), id="lost"),
        pytest.param(
            lambda turn: turn.cohort.core.endings.fail(turn.ticket, HoldExpired("too long"), 0.0), id="expired"
        ),
        pytest.param(lambda turn: setattr(turn.cohort.core, "refusal", ENOUGH), id="draining"),
        pytest.param(lambda turn: setattr(turn.cohort.core, "deadline", 0.5), id="lease over"),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_a_hold_is_not_handed_on_and_does_not_linger(why: Callable[[CohortTurn], float | None], waits: bool) -> None:
    """That is old, a fence, lost or given up, or whose session waits for no lock: its turn is its last."""
    turns = Turns(linger=LINGER_S)
    before = turns.held()
    turn = turns.waiting()
    before.end(0.0)
    turns.work(0.0)
    if waits:
        turns.waiting()
    assert turn.end(why(turn) or 0.5) is turn.ticket


@pytest.mark.parametrize("linger", [LINGER_S, 9.0])
def test_a_hold_that_nobody_wants_lingers(linger: float) -> None:
    """Its next turn asks etcd for nothing; it ends in time, and a second after its grant at the latest."""
    turns = Turns(linger=linger)
    ticket = turns.lingering().ticket
    assert ticket is not None
    assert (ticket.queue.observers, turns.given_up) == ({turns.cohort: None}, 0)
    ticket.loss = turns  # type: ignore[assignment]
    turn = turns.cohort.take("me", "here", 0.1)
    assert turn is not None
    assert (turn.number, turn.ticket, turn.where, turn.owner, ticket.queue.observers) == (3, ticket, "here", "me", {})
    assert turns.cohort.take("me", "here", 0.1) is None
    assert (turn.end(0.1), ticket.loss) == (None, None)
    entered = turns.turn(0.1)
    assert (entered.next(0.1), entered.ticket, entered.number) == (None, ticket, 4)
    assert turns.cohort in turns.core.observers
    assert entered.end(0.1) is None
    end = min(0.1 + linger, OLDEST_S)
    assert turns.cohort.poll(math.nextafter(end, 0.0)) == end
    assert turns.cohort.is_lingering
    assert turns.core.poll(end) >= end
    assert (ticket.stage, turns.given_up, turns.cohort.is_lingering) == (Stage.RELEASING, 1, False)
    assert (turns.cohort.poll(end), turns.cohort in turns.core.observers) == (math.inf, False)


@pytest.mark.parametrize(
    ("end", "now"),
    [
        pytest.param(lambda turns: None, LINGER_S, id="time"),
        pytest.param(lambda turns: turns.core.following.handle_event("m/", CUT, 0.1), 0.1, id="watch"),
        pytest.param(lambda turns: turns.core.begin("m/", "", turns.rule, 0.1), 0.1, id="of this session"),
        pytest.param(lambda turns: turns.core.refuse(ENOUGH, 0.1), 0.1, id="draining"),
        pytest.param(lambda turns: turns.core.endings.key_deleted(turns.ticket, 0.1), 0.1, id="deleted"),
        pytest.param(lambda turns: turns.core.lose("is gone"), 0.1, id="lost"),
        pytest.param(lambda turns: setattr(turns.core, "deadline", 0.1), 0.1, id="lease over"),
    ],
)
@pytest.mark.parametrize("enters", [False, True])
def test_what_lingers_ends(end: Callable[[Any], object], now: float, enters: bool) -> None:
    """And is no turn any more: who comes then queues anew, or hears that the session is over."""
    turns: Any = Turns(linger=LINGER_S)
    turns.ticket = turns.lingering().ticket
    turns.rule = turns.ticket.rule
    end(turns)
    turn = turns.turn(now)
    if enters:
        with suppress(LockCancelled, SessionLost):
            assert isinstance(turn.next(now), Send)
    else:
        assert turns.cohort.take("me", "here", now) is None
    assert (turn.ticket, turns.cohort.turn, turns.cohort.is_lingering) == (None, None, False)
    assert turns.ticket.stage is not Stage.HELD
    assert turns.cohort not in turns.ticket.queue.observers or turns.core.failure is not None
    assert turns.given_up == (turns.core.failure is None or now == turns.core.deadline)


def test_what_does_not_end_what_lingers() -> None:
    """An event of its own key; whoever leaves and never was in line. Nor does anything begin where nothing lingers."""
    turns = Turns(linger=LINGER_S)
    queue = turns.core.begin("n/", "", turns.held().ticket.rule, 0.0).queue  # type: ignore[union-attr]
    turns.cohort.look(queue, 0.0)
    turns.cohort.wake_first()
    assert turns.given_up == 0
    turns = Turns(linger=LINGER_S)
    turns.cohort.refuse(ENOUGH, 0.0)
    turns.lingering()
    turns.cohort.leave(turns.turn(), 0.0)
    turns.core.following.handle_event("m/", [Event(False, turns.etcd.keys["m/1-1"])], 0.0)
    assert (turns.given_up, turns.cohort.is_lingering) == (0, True)


def test_a_new_cohort_of_a_queue_that_is_followed_lingers_at_once() -> None:
    """And its driver is to look sooner, although it has not looked at it before."""
    turns = Turns(linger=LINGER_S)
    turns.lingering()
    turns.cohort.stop_lingering(0.0)
    turns.work(0.0)
    cohort = Cohort(turns.core, "m", "m/", Bounds(9, 9.0, LINGER_S), 1.0)
    assert (cohort.is_contended, cohort.is_settled(), cohort.timed_out(0.0, None, 0.0, ENOUGH)) == (
        False,
        False,
        ENOUGH,
    )
    turn = CohortTurn(cohort, 0.0, deadline=math.inf)
    turns.go(turn)
    turns.core.outbox.is_early = False
    assert (turn.end(0.0), cohort.is_lingering, turns.core.outbox.is_early) == (None, True, True)


def test_the_driver_looks_in_time_for_what_lingers() -> None:
    """It is called where it would look too late, not for each turn."""
    turns = Turns(linger=LINGER_S)
    core = turns.core
    turns.lingering()
    core.poll(0.0)
    core.outbox.is_early = False
    for now in (0.05, 0.06):
        again = turns.cohort.take("me", "here", now)
        assert again is not None
        assert turns.cohort.poll(now) == now + LINGER_S
        again.end(now)
        assert not core.outbox.is_early
    turns = Turns()
    turns.held()
    assert turns.cohort.poll(0.0) == math.inf


def test_a_hold_that_nobody_has_yet_ends_with_the_last_in_line_or_the_draining_session(turns: Turns) -> None:
    """It was granted, and its first turn has not begun."""
    for end in (lambda turn: turn.leave(0.0), lambda turn: turns.core.refuse(ENOUGH, 0.0)):
        turn = turns.turn()
        step = sent(turn)
        turn.answered(step.request, turns.etcd.serve(step.request, 1), 0.0)
        assert turns.cohort.acquisition is not None
        ticket = turns.cohort.acquisition.ticket
        assert (ticket.stage, turns.cohort.is_settled()) == (Stage.HELD, True)
        end(turn)
        assert ticket.stage is Stage.RELEASING
        assert not turns.cohort.acquisition
        turns.work(0.0)


def test_a_try_takes_what_is_free_and_nothing_else(turns: Turns) -> None:
    """Not where others of its process wait or have a turn, nor where another process holds; or it says so."""
    tried = turns.held(tries=True, deadline=0.0)
    waits = turns.waiting()
    for _ in range(2):
        late = turns.turn(tries=True, deadline=0.0)
        assert (late.next(0.0), late.next(0.0), late.is_held) == (None, None, False)
        assert late not in turns.cohort.waits
        with pytest.raises(LockTimeout, match=r"'m' not acquired within 0\.0 s; held by .*m/1-1"):
            turns.turn(5.0, tries=True, deadline=0.0, explains=True).next(5.0)
        tried.end(0.0) if tried.ticket and turns.cohort.turn is tried else None
    waits.leave(0.0)
    turns.work(0.0)
    turns.turn().next(0.0)
    with pytest.raises(LockTimeout, match="'m' is not free: others of this process wait for it"):
        turns.turn(tries=True, explains=True, deadline=0.0).next(0.0)
    turns = Turns()
    other = other_waits(turns.etcd)
    plain = turns.turn(tries=True, deadline=0.0)
    assert (turns.go(plain), plain.is_held, turns.cohort.acquisition) == (None, False, None)
    assert (turns.cohort in turns.core.observers, plain.next(0.0)) == (False, None)
    with pytest.raises(LockTimeout, match=r"held by .*m/2-1"):
        turns.go(turns.turn(tries=True, deadline=0.0, explains=True))
    assert list(turns.etcd.keys) == [*other.core.tickets]


def test_who_leaves_wakes_the_next_and_asks_no_more(turns: Turns) -> None:
    """Also while it has asked; what is answered then is nobody's."""
    first = turns.turn()
    step = sent(first)
    turns.waiting()
    for turn in list(turns.cohort.waits):
        turn.leave(0.0)
        assert turns.core.outbox.changes[-1:] == list(turns.cohort.waits)[:1] or not turns.cohort.waits
    first.answered(step.request, turns.etcd.serve(step.request, 1), 0.0)
    assert first.next(0.0) is None


def test_a_try_that_leaves_takes_its_attempt_with_it(turns: Turns) -> None:
    """Who waits behind it queues on its own, and does not end without a hold."""
    tries = turns.turn(tries=True, deadline=0.0)
    assert isinstance(tries.next(0.0), Send)
    waits = turns.waiting()
    attempt = turns.cohort.acquisition
    assert attempt is not None
    assert attempt.deadline == 0.0
    tries.leave(0.0)
    sent(waits)
    assert (attempt.ticket.stage, turns.cohort.acquisition is attempt) == (Stage.RELEASING, False)


def test_a_wait_that_is_over_names_the_holder(turns: Turns) -> None:
    """With what its lease has left, which is asked once; and one that has no place in the queue says that."""
    other_waits(turns.etcd)
    waits = turns.waiting(deadline=1.0)
    assert waits.next(1.0) == Sleep(1.05)  # until it is known who holds
    turns.work(0.0)
    assert waits.next(1.0) == Send(TimeToLive(2), 0.05)
    assert waits.next(1.0) == Sleep(math.inf)
    waits.answered(TimeToLive(2), LeaseStatus(7, 9), 1.0)
    with pytest.raises(LockTimeout, match=r"'m' not acquired within 1\.0 s; held by .*m/2-1.* with 7 s"):
        waits.next(1.0)
    assert (waits.next(1.0), turns.cohort.acquisition) == (None, None)
    again = turns.waiting(1.0, deadline=1.5)
    assert sent(again, 2.5).request == TimeToLive(2)
    again.unanswered(TimeToLive(2))
    again.failed(TimeToLive(2), EtcdUnavailable("away"), 2.5)
    with pytest.raises(LockTimeout, match=r"within 1\.5 s; held by"):
        again.next(2.5)
    turns = Turns()
    turns.etcd.put("m/0-go", b"", 0)  # without a lease
    waits = turns.waiting(deadline=1.0)
    turns.work(0.0)
    with pytest.raises(LockTimeout, match=r"held by .*m/0-go"):
        waits.next(1.0)


def test_a_wait_without_a_place_ends_in_time() -> None:
    """The first one's write is not answered, or not sent: nobody else waits longer for that than a call takes."""
    turns = Turns()
    first, second = turns.turn(deadline=1.0), turns.turn(deadline=1.0)
    step = sent(first)
    assert (step.timeout, first.next(0.5), turns.cohort.is_settled()) == (1.0, Sleep(math.inf), False)
    for now, until in ((0.0, 1.0), (1.0, 1.05), (1.97, 2.0)):
        assert second.next(now) == Sleep(until)
    with pytest.raises(EtcdUnavailable, match=r"'m': no place in the queue in time \(2\.0 s\)"):
        second.next(2.0)
    first.unanswered(step.request)
    first.failed(step.request, EtcdUnavailable("away"), 1.8)
    assert turns.cohort.acquisition is not None
    assert turns.cohort.acquisition.ticket.in_doubt
    assert sent(first, 1.95).timeout == pytest.approx(0.05)
    turns = Turns()
    turn, _, third = turns.held(), turns.waiting(), turns.waiting(deadline=1.0)
    turn.fence(0.0)
    turn.end(0.0)
    with pytest.raises(EtcdUnavailable, match="no place in the queue in time"):
        third.next(2.0)


def test_an_error_of_the_attempt_is_that_of_the_first_in_line(turns: Turns) -> None:
    """The next one begins anew; answers and failures wake who goes on with what was asked by one that has left."""
    first, second = turns.turn(), turns.turn()
    step = sent(first)
    second.next(0.0)
    first.failed(step.request, EtcdDenied("no right"), 0.0)
    with pytest.raises(EtcdDenied, match="no right"):
        first.next(0.0)
    first.leave(0.0)
    step = sent(second)
    third = turns.waiting()
    second.cancel(ENOUGH, 0.0)
    turns.core.outbox.changes.clear()
    second.answered(step.request, turns.etcd.serve(step.request, 1), 0.0)
    assert third in turns.core.outbox.changes
    assert (third.next(0.0), third.is_held) == (None, True)
    turns = Turns()
    first = turns.turn()
    step = sent(first)
    second = turns.waiting()
    first.leave(0.0)
    turns.core.outbox.changes.clear()
    first.failed(step.request, EtcdUnavailable("away"), 0.0)
    assert second in turns.core.outbox.changes
    first.failed(step.request, EtcdDenied("late"), 0.0)
    first.answered(step.request, None, 0.0)
    assert second.next(0.0) == Sleep(0.1)


def test_a_turn_that_is_over_is_not_held(turns: Turns) -> None:
    """The hold goes on with the next one, whatever is called of it; a wait alone is cancelled, while it lasts."""
    turn = turns.held()
    turns.waiting()
    turn.cancel(ENOUGH, 0.0)
    turn.end(0.0)
    for call in (turn.next, turn.end, turn.fence):
        with pytest.raises(NotHeld, match="'m' was ended before"):
            call(0.0)
    left, cancelled = turns.waiting(), turns.waiting()
    left.leave(0.0)
    turns.core.outbox.changes.clear()
    for each in (left, cancelled):
        each.cancel(ENOUGH, 0.0)
    assert cancelled.failure is ENOUGH
    assert turns.core.outbox.changes == [cancelled]


def test_a_thread_waits_for_itself_behind_its_own_turn(turns: Turns) -> None:
    """It is told where it has acquired; another thread is not, nor the one whose turn it is."""
    mine, other = turns.turn(owner="me"), turns.turn(owner="other")
    assert mine.waits_for_itself() is None
    turn = turns.held(owner="me", where="shop.py:12")
    assert (turn.waits_for_itself(), mine.waits_for_itself(), other.waits_for_itself()) == (None, "shop.py:12", None)


def test_a_session_that_refuses_or_is_lost_ends_the_waits(turns: Turns) -> None:
    """And no turn; each has its own error, which is told once and stays."""
    turn, waits = turns.held(), turns.waiting()
    turns.core.refuse(ENOUGH, 0.0)
    assert (waits in turns.core.outbox.changes, [*turns.cohort.waits], turns.cohort.turn) == (True, [], turn)
    with pytest.raises(LockCancelled, match="enough"):
        turns.turn().next(0.0)
    waits.cancel(LockCancelled("again"), 0.0)
    for _ in range(2):
        with pytest.raises(LockCancelled, match="enough") as raised:
            waits.next(0.0)
        assert raised.value is not ENOUGH
    assert (turn.next(0.0), turns.given_up) == (None, 0)
    turns = Turns()
    turn, waits = turns.held(), turns.waiting()
    turns.core.lose("is gone")
    for each in (turn, waits):
        with pytest.raises(SessionLost):
            each.next(0.0)
    assert turns.cohort.acquisition is None


def test_a_turn_that_leaves_ends_its_hold_or_hands_it_on(turns: Turns) -> None:
    """As any other end of it; others that wait stay in line meanwhile."""
    turn, first, second = turns.held(), turns.waiting(), turns.waiting()
    turns.core.outbox.changes.clear()
    first.leave(0.0)
    assert not turns.core.outbox.changes
    second.leave(0.0)
    third = turns.waiting()
    turn.leave(0.0)
    assert third.is_held
    third.leave(0.0)
    assert third.ticket is not None
    assert (third.ticket.stage, turns.given_up) == (Stage.RELEASING, 1)
    with pytest.raises(NotHeld):
        third.end(0.0)
