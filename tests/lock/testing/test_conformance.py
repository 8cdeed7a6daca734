"""Conformance of every recipe on an etcd in memory, for threads and for tasks: the cases of a real one, as they are.

Those that need a network, a process or another client are here with what the etcd in memory has in their place.
"""

from __future__ import annotations

import pytest

from lock import Session
from lock.testing import MemoryEtcd
from tests.lock.conformance import test_recipe_holds
from tests.lock.conformance.recipes import Loop, every
from tests.lock.conformance.test_recipe_holds import (  # noqa: F401
    test_m_a_draining_session_cancels_its_waits,
    test_m_cancel_ends_the_waits_and_no_hold,
    test_m_one_wait_is_cancelled,
    test_n_never_more_are_inside_than_may,
    test_o_a_lost_hold_says_so_in_every_way,
    test_o_leaving_with_tells_of_a_loss,
    test_o_with_ends_the_hold_that_it_began,
    test_o_with_never_runs_its_body_on_a_hold_that_is_over,
    test_p_a_discarded_hold_stays_and_the_lock_releases_it,
    test_p_a_hold_that_nothing_can_release_is_logged,
    test_p_nothing_is_left,
    test_q_a_client_writes_for_the_owner_alone,
)
from tests.lock.conformance.test_recipes import (  # noqa: F401
    test_a_only_a_hold_is_released_and_once,
    test_b_others_follow_in_order,
    test_c_of_five_that_try_at_once_no_more_hold_than_may,
    test_d_a_waiter_in_the_middle_ends,
    test_f_a_timeout_that_means_nothing_is_refused,
    test_f_a_wait_has_an_end,
    test_g_a_session_that_ends_frees_at_once,
    test_k_names_what_stands_below,
)
from tests.support.lock import WAIT_S
from tests.support.waiting import Patch, in_thread, wait_until


@pytest.fixture(autouse=True)
def _deleted_by_command(etcd_lock: MemoryEtcd, monkeypatch: Patch) -> None:
    """A key that is deleted by hand is told at once, where a real etcd's session looks every two seconds."""
    monkeypatch.setattr(test_recipe_holds, "delete", lambda _, key: etcd_lock.delete(key))


def test_g_what_is_cut_off_blocks_for_the_ttl(etcd_lock: MemoryEtcd, stranger: Session, name: str, loop: Loop) -> None:
    """What waits behind the holds of a lease that is renewed no more holds when the TTL is over, and not before."""
    client = etcd_lock.connect()
    lease = client.grant(20)
    rivals = [face.rival(stranger) for face in every(stranger, name, loop)]
    for face in rivals:
        assert client.create(f"{face.name}/dead", b"", lease.id)
    waits = [in_thread(rival.turn) for rival in rivals]
    wait_until(lambda: len(etcd_lock.list_keys(name)) == 2 * len(rivals), timeout=WAIT_S)
    for _ in range(3):
        etcd_lock.clock.advance(6)
    assert not any(each.done() for each in waits)
    etcd_lock.clock.advance(3)
    for each in waits:
        each.result(WAIT_S)
