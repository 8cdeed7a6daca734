"""etcd restarts, and is back before a lease can end."""

from __future__ import annotations

from loadtest.faults.act import Act
from loadtest.faults.scenario import Scenario


class RestartEtcd(Scenario):
    """Leases and places in the queue are on etcd's disk: the sale goes on where it was."""

    name = "restart-etcd"
    what = "stop etcd and start it again within the TTL"

    def play(self, act: Act) -> None:
        act.let_sell(20)
        act.arena.etcd.stop()
        act.say("etcd is stopped")
        act.arena.etcd.start()
        act.say("etcd is back")
        act.let_sell(20)
