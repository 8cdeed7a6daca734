"""The cases, in the order of the table."""

from labs.libraries.cases.case import LockCase
from labs.libraries.cases.contention import ArrivalOrder, Exclusion
from labs.libraries.cases.costs import Speed, Waiters
from labs.libraries.cases.faults import Cut, LostAnswer, Restart
from labs.libraries.cases.leases import KeyDeleted, Killed, Paused, Renewal, TokenRises
from labs.libraries.cases.waiting import Abandoned, Body, Timeout

CASES: tuple[type[LockCase], ...] = (
    *(Exclusion, Body, Timeout, Abandoned, ArrivalOrder),
    *(Renewal, Killed, Paused, TokenRises, KeyDeleted),
    *(Restart, Cut, LostAnswer),
    *(Waiters, Speed),
)
COLUMNS = tuple(column for case in CASES for column in case.columns)
