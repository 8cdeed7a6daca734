"""The small worlds whose histories are all tried."""

from __future__ import annotations

from lock.core.acquisition import Terms
from lock.model import Declaration
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo
from tests.lock.core.small_world import Plan, Want

LOCK, TURN = Want(), Want(turn=True)
FENCED = Want(fence=True)
LEAVER = Want(timeout=0.5)
READ = Want(("rw/",), Terms(ReadersTogether(), Declaration("read"), "read/"))
WRITE = Want(("rw/",), Terms(ReadersTogether(), Declaration("write"), "write/"))
PERMIT = Want(("s/",), Terms(UpTo(2), Declaration("permit", 2)))
ONE, OTHER = Want(("a/", "b/")), Want(("b/", "a/"))

WORLDS: dict[str, Plan] = {
    "two": Plan((((LOCK,),), ((LOCK,),))),
    "again": Plan((((LOCK, LOCK),),)),
    "threads": Plan((((LOCK,), (FENCED,)),)),
    "beside": Plan((((LOCK,), (LOCK,)), ((LOCK,),))),
    "leaver": Plan((((LOCK,),), ((LEAVER,),), ((LOCK,),)), times=1),
    "turns": Plan((((TURN,), (TURN,)),), linger=0.1),
    "cohort": Plan((((TURN,), (TURN,)), ((LOCK,),)), linger=0.1),
    "ended": Plan((((TURN,), (TURN,)),), kinds=("meddle_with_turn", "cancel", "abandon")),
    "lingers": Plan((((TURN, TURN, TURN),),), linger=0.6, kinds=("cut", "leave_out", "delete_by_hand")),
    "late turn": Plan((((TURN, TURN, TURN),),), linger=0.9, kinds=("starve",)),
    "read-write": Plan((((READ,), (WRITE,)), ((READ,),))),
    "semaphore": Plan((((PERMIT,), (PERMIT,)), ((PERMIT,),))),
    "together": Plan((((ONE,),), ((OTHER,),))),
    "lease": Plan((((LOCK,),), ((LOCK,),)), kinds=("pause", "kill", "renew_late", "starve")),
    "restore": Plan((((LOCK,),), ((LOCK,),)), kinds=("back_up", "restore")),
}
