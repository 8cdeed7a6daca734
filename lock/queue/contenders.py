"""Holders and waiters, as etcd has them at this moment."""

from __future__ import annotations

import contextlib

from lock.errors import EtcdDenied, EtcdUnavailable
from lock.etcd.client import Client
from lock.model import Contender
from lock.queue.admission import Admission, Frontier
from lock.runtime.clock import now


def contenders_of(client: Client, prefix: str, rule: Admission) -> list[Contender]:
    """The queue under a prefix, holders by this rule first, with the seconds that the leases have left; asks etcd.

    Takes no longer than one call may, so leases at the end of a long queue may go unasked; and of a lease with keys
    that the user may not read etcd says nothing (3.5.9 and later).
    """
    deadline = now() + client.timeout
    keys = client.get_prefix(prefix).keys
    ttls: dict[int, int] = {}
    with contextlib.suppress(EtcdUnavailable):
        for lease in dict.fromkeys(kv.lease_id for kv in keys if kv.lease_id):
            with contextlib.suppress(EtcdDenied):
                ttls[lease] = client.time_to_live(lease, timeout=deadline - now()).ttl
    frontier = Frontier(rule, keys)
    frontier.advance()
    return [Contender.of(kv, ttls.get(kv.lease_id), holds=frontier.holds(kv.key)) for kv in keys]
