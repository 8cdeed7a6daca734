"""Which wrong ends need their fault: so one error costs one stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from labs.steps.schedules.graph import Graph, State


def leave_what_needs_no_fault(graph: Graph) -> None:
    """Prepare a graph without a fault for explorations with one.

    A fault is made only in states from which all schedules without a fault end rightly: it alone leads to what is wrong
    behind it. How schedules without a fault end counts no more.
    """
    wrong = _leading_to_wrong(graph.states)
    for state in graph.states:
        state.ending = None
        if state.number in wrong:
            state.faults.clear()


def can_end_rightly(graph: Graph) -> bool:
    """Whether any schedule does."""
    return any(state.ending is not None and state.ending.is_right for state in graph.states)


def _leading_to_wrong(states: Sequence[State]) -> set[int]:
    """The states from which a schedule ends wrongly."""
    before = defaultdict[int, list[int]](list)
    for state in states:
        for to in state.moves.values():
            if to is not None:
                before[to.number].append(state.number)
    found = [state.number for state in states if state.is_wrong]
    leading = set(found)
    while found:
        new = set(before[found.pop()]) - leading
        leading |= new
        found += new
    return leading
