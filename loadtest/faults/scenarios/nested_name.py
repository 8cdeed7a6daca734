"""A stranger's lock stands in the way without having the same name."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.shop import CHILD, LOCK_TIMEOUT_S
from loadtest.results.answer import Outcome
from lock import Mutex, Session, connect


class NestedName(Scenario):
    """A lock on a name waits for everything below it: the queue of NAME is the prefix NAME/.

    That cannot be helped without leaving the queue that all etcd clients share; but an operator should not have to
    read etcd's source to find the holder. The refusal names it.
    """

    name = "nested-name"
    what = "a stranger holds NAME/child; the timeout names the holder to the operator"

    def play(self, context: ScenarioContext) -> None:
        context.wait_for_sales(20)
        with (
            connect(context.testbed.etcd.endpoints) as client,
            Session(client, ttl=10, name="stranger") as session,
            Mutex(session, CHILD).acquire(timeout=5),
        ):
            context.announce(f"a stranger holds {CHILD}")
            answer = context.buyers.buy("operator", shop=0)
        context.announce("the stranger is gone")
        if context.uses_etcd:
            told = str(context.buyers.told["operator"].get("detail"))
            context.require(
                answer.outcome is Outcome.LOCK_TIMEOUT, f"after {LOCK_TIMEOUT_S:g} s: {answer.outcome.value}"
            )
            context.require(CHILD in told and "stranger" in told, f"the refusal does not name the stranger: {told}")
        context.wait_for_sales(20)
