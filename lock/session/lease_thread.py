"""Keeps a lease alive, and gives it back when it is lost here but perhaps not in etcd.

The local deadline is counted from the moment a renewal was *sent*, with the TTL that the server granted: etcd counts
from a later moment, so a lease that is valid here is valid there. (Go's client counts from the answer.)

This thread watches the deadline and calls no etcd: another one renews for it. So whatever stands still, a lease that
is not renewed is told as lost.

Error handling: a renewal that fails is repeated until the deadline. A lease that is lost stays lost, even if etcd
might still have extended it: holds were told.
"""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING

from lock.errors import EtcdError
from lock.runtime.clock import now
from lock.runtime.interrupts import start_apart

if TYPE_CHECKING:
    from lock.session.engine import Engine

logger = logging.getLogger(__name__)

_RETRY_S = 0.2
_SLEEP_S = 1.0  # at most: a machine that was suspended learns soon after that its lease is over


class LeaseThread(threading.Thread):
    """Has the lease of a session renewed until it is lost, and then given back, unless `stop` is called."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(name="lock-lease", daemon=True)
        self._engine = engine
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._is_renewing = False
        self._due = 0.0  # when it is to be renewed

    def wake(self) -> None:
        """Renew it now: there is a sign that it may be gone."""
        self._due = 0.0
        self._wake.set()

    def stop(self) -> None:
        """Leave it as it is, once its session is lost; does not wait."""
        self._stopping.set()
        self._wake.set()

    def revoke(self, timeout: float | None = None) -> None:
        """Free at once what is bound to it; `timeout` in seconds, the client's if it is `None`."""
        core = self._engine.core
        try:
            self._engine.client.revoke(core.lease_id, timeout=timeout)
        except EtcdError as error:
            logger.warning("lease %x is left to expire within %s s: %s", core.lease_id, core.ttl, error)

    def run(self) -> None:
        """Renew it after each third of its TTL."""
        core = self._engine.core
        self._due = core.deadline - core.ttl * 2 / 3
        while core.failure is None:
            due = core.deadline if self._is_renewing else min(self._due, core.deadline)
            if self._wake.wait(max(min(_SLEEP_S, due - now()), 0.0)):
                self._wake.clear()
            if now() >= core.deadline:
                self._engine.apply(core.poll)
            elif now() >= self._due and not self._is_renewing and core.failure is None:
                self._is_renewing = True
                start_apart(self._renew)
        start_apart(self._give_back)

    def _renew(self) -> None:
        try:
            self.renew()
        finally:
            self._is_renewing = False
            self._wake.set()

    def renew(self) -> None:
        """Renew it now; lose it if it is gone or its time is over."""
        engine, core, sent = self._engine, self._engine.core, now()
        self._due, again, left = math.inf, 0.0, core.deadline - sent
        try:
            if left > 0.0:
                ttl = engine.client.keep_alive(core.lease_id, timeout=min(engine.client.timeout, left))
                engine.apply(core.renewed, sent, ttl)
                again = sent + ttl / 3
        except EtcdError as error:
            logger.info("lease %x was not renewed, %.1f s left: %s", core.lease_id, core.deadline - now(), error)
        except Exception:  # a machine that is out of threads or memory; all that relies on the lease has to be told
            logger.exception("lease %x was not renewed, %.1f s left", core.lease_id, core.deadline - now())
        self._due = min(self._due, again or now() + _RETRY_S)
        if now() >= core.deadline:
            engine.apply(core.poll)

    def _give_back(self) -> None:
        """Revoke what is lost to us but perhaps not to etcd, which extends all leases when it restarts."""
        core = self._engine.core
        until = now() + 2 * core.ttl
        while not self._stopping.wait(_RETRY_S) and now() < until:
            try:
                self._engine.client.revoke(core.lease_id)
                return
            except EtcdError as error:
                logger.debug("lease %x was not revoked: %s", core.lease_id, error)
            except Exception:
                logger.exception("lease %x was not revoked", core.lease_id)
