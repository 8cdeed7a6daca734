"""The cases, in the order of the table."""

from labs.libraries.cases.case import LockCase
from labs.libraries.cases.contention import arrival_order, exclusion, speed, waiters
from labs.libraries.cases.faults import cut, lost_answer, restart
from labs.libraries.cases.leases import key_deleted, killed, paused, renewal
from labs.libraries.cases.waiting import body, timeout

CASES = (
    LockCase("exclusion", ("exclusion", "token"), exclusion, races=True),
    LockCase("body", ("body",), body),
    LockCase("timeout", ("timeout",), timeout, races=True),  # one that polls may or may not be in time
    LockCase("order", ("order",), arrival_order, races=True),
    LockCase("renewal", ("renewal",), renewal),
    LockCase("killed", ("killed",), killed),
    LockCase("paused", ("woken", "late_release"), paused, races=True),  # the news of the loss, and the next write
    LockCase("deleted", ("deleted",), key_deleted),
    LockCase("restart", ("restart_held", "restart_waiting"), restart),
    LockCase("cut", ("cut",), cut),
    LockCase("lost-answer", ("lost_answer",), lost_answer),
    LockCase("waiters", ("waiters",), waiters, alone=True),
    LockCase("speed", ("speed",), speed, alone=True),
)
COLUMNS = tuple(column for case in CASES for column in case.columns)
