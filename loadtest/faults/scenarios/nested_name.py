"""A stranger's lock stands in the way without having the same name."""

from __future__ import annotations

from loadtest.faults.context import Act
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.protocols import CHILD, LOCK_TIMEOUT_S
from loadtest.results.answer import Outcome
from lock import Mutex, Session, connect


class NestedName(Scenario):
    """A lock on a name waits for everything below it: the queue of NAME is the prefix NAME/.

    That cannot be helped without leaving the queue that all etcd clients share; but nobody should have to read etcd's
    source to learn whom to look for. The refusal says it.
    """

    name = "nested-name"
    what = "a stranger holds NAME/child; the timeout tells the operator whom to look for"

    def play(self, act: Act) -> None:
        act.let_sell(20)
        with (
            connect(act.arena.etcd.endpoints) as client,
            Session(client, ttl=10, name="stranger") as session,
            Mutex(session, CHILD).acquire(timeout=5),
        ):
            act.say(f"a stranger holds {CHILD}")
            answer = act.buyers.buy("operator", shop=0)
        act.say("the stranger is gone")
        if act.uses_etcd:
            told = str(act.buyers.told["operator"].get("detail"))
            act.insist(answer.outcome is Outcome.LOCK_TIMEOUT, f"after {LOCK_TIMEOUT_S:g} s: {answer.outcome.value}")
            act.insist(CHILD in told and "stranger" in told, f"the refusal does not name the stranger: {told}")
        act.let_sell(20)
