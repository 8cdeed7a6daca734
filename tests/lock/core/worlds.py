"""The small worlds whose histories are all tried."""

from __future__ import annotations

from lock.core.acquisition import Terms
from lock.core.cohort import Bounds
from lock.model import Declaration
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo
from tests.lock.core.small_world import Plan, Want

LOCK, TURN = Want(), Want(turn=True)
FENCED = Want(fence=True)
FENCED_TURN = Want(turn=True, fence=True)
LEAVER = Want(leaves=True)
TRY, SHORT = Want(tries=True), Want(max_hold=0.5)
READ = Want(("rw/",), Terms(ReadersTogether(), Declaration("read"), "read/"))
WRITE = Want(("rw/",), Terms(ReadersTogether(), Declaration("write"), "write/"))
PERMIT = Want(("s/",), Terms(UpTo(2), Declaration("permit", 2)))
THREE = Want(("s/",), Terms(UpTo(3), Declaration("permit", 3)))
ONE, OTHER = Want(("a/", "b/")), Want(("b/", "a/"))
# A key is there again that was deleted, and the session is about to learn of it.
RESTORED = "begin 1 1; arrive 0; answer 0; release 1 1; back_up; arrive 0; answer 0; restore; time; look 1"
# The second turn of a session that follows its queue since the first one: this hold may linger.
SECOND_TURN = (
    "begin 1 1; arrive 0; answer 0; release 1 1; hear 1 m/; arrive 0; hear 1 m/; answer 0;"
    " begin 1 1; arrive 0; answer 0; arrive 0; hear 1 m/; answer 0"
)
LATE_TURN = (
    "starve 1; begin 1 1; arrive 0; arrive 1; answer 0; answer 0; release 1 1; hear 1 m/; arrive 0; hear 1 m/;"
    " answer 0; begin 1 1; arrive 0; answer 0; arrive 0; hear 1 m/; answer 0"
)

# Two sessions have queued behind a hold of a third one, whose second thread queues behind them.
BETWEEN = (
    "begin 1 1; arrive 0; answer 0; begin 2 1; arrive 0; answer 0; begin 3 1; arrive 0; answer 0;"
    " begin 1 2; arrive 0; answer 0"
)
# A third session has queued behind a wait that may end, behind a hold.
MIDDLE = "begin 1 1; arrive 0; answer 0; begin 2 1; arrive 0; answer 0; hear 2 m/; begin 3 1; arrive 0; answer 0"
# A thread of session 2 waits behind session 1, by its predecessor, which is not watched yet.
BEHIND = "begin 1 1; arrive 0; answer 0; begin 2 1; arrive 0; answer 0"
# It has waited for five seconds, so it looks at its predecessor once more.
AUDITED = f"{BEHIND}; hear 2 m/; time; time"

WORLDS: dict[str, Plan] = {
    "alone": Plan((((LOCK,),),)),
    "two": Plan((((LOCK,),), ((LOCK,),))),
    "again": Plan((((LOCK, LOCK),),)),
    "threads": Plan((((LOCK,), (FENCED,)),)),
    "beside": Plan((((LOCK,), (LOCK,)), ((LOCK,),))),
    "leaver": Plan((((LOCK,),), ((LEAVER,),), ((LOCK,),))),
    "leaves": Plan((((LOCK,),), ((LEAVER,),))),
    "behind": Plan((((LOCK,),), ((LOCK,),)), after=BEHIND),
    "own key": Plan((((LOCK,),), ((LOCK,),)), kinds=("delete_by_hand",), after=BEHIND),
    "between": Plan((((LOCK,), (LOCK,)), ((LOCK,),), ((LOCK,),)), after=BETWEEN),
    "middle": Plan((((LOCK,),), ((LEAVER,),), ((LOCK,),)), after=MIDDLE),
    "second": Plan((((LOCK,),), ((LOCK,), (LEAVER,))), after=BEHIND),
    "turns": Plan((((TURN,), (TURN,)),), bounds=Bounds(2, 1.0, 0.1)),
    "cohort": Plan((((TURN,), (TURN,)), ((LOCK,),)), bounds=Bounds(2, 1.0, 0.1)),
    "ended": Plan((((TURN,), (TURN,)),), kinds=("meddle_with_turn", "cancel", "abandon")),
    "lingers": Plan((((TURN, TURN, TURN),),), bounds=Bounds(2, 1.0, 0.6), after=SECOND_TURN),
    "late turn": Plan((((TURN, TURN, TURN),),), bounds=Bounds(2, 1.0, 0.9), after=LATE_TURN),
    "read-write": Plan((((READ,), (WRITE,)), ((READ,),))),
    "reader": Plan((((READ,),), ((WRITE,),))),
    "semaphore": Plan((((PERMIT,), (PERMIT,)), ((PERMIT,),))),
    "together": Plan((((ONE,),), ((OTHER,),))),
    "tries": Plan((((TRY,),), ((LOCK,),))),
    "max hold": Plan((((SHORT,),), ((LOCK,),)), times=1),
    "lease": Plan((((LOCK,),), ((LOCK,),)), kinds=("pause", "kill", "renew_late", "starve")),
    "restore": Plan((((LOCK,),), ((LOCK,),)), kinds=("back_up", "restore")),
    "restored": Plan((((LOCK, LOCK),),), after=RESTORED),
    "audit": Plan((((LOCK,),), ((LOCK,), (LOCK,))), after=AUDITED),
    "handed on": Plan((((LOCK,), (LOCK,)),), kinds=("cut",)),
    "fenced": Plan((((FENCED,), (LOCK,)),), kinds=("meddle", "abandon")),
    "fenced turns": Plan((((FENCED_TURN,), (TURN,)),), kinds=("meddle_with_turn",)),
    "given up": Plan((((LOCK,),),), kinds=("abandon", "lose")),
    "given up twice": Plan((((LOCK, LOCK),),), kinds=("abandon",)),
    "other key": Plan((((LOCK,),),), kinds=("repeat", "delete_by_hand")),
    "other reader": Plan((((READ,),),), kinds=("repeat", "delete_by_hand")),
}
