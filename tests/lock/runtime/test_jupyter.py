"""A kernel of Jupyter, whose loop runs in its main thread, and whose cells are interrupted by SIGINT."""

from __future__ import annotations

from typing import Any

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, Mutex, Session
from tests.support.lock import ROOT, WAIT_S, keys
from tests.support.waiting import wait_until

SETUP = """
from lock import Mutex, Session, aio, connect
session = Session(connect({endpoint!r}), ttl=3)
mutex, tasks = Mutex(session, {name!r}), aio.Mutex(session, {name!r})
"""
CELLS = {
    "of threads": "while True:\n    with mutex.acquire(timeout=30): pass",
    "of tasks": "while True:\n    async with tasks.acquire(timeout=30): pass",
}


class Kernel:
    """One that is started, and its client."""

    def __init__(self) -> None:
        jupyter = pytest.importorskip("jupyter_client")
        self.manager, self._client = jupyter.manager.start_new_kernel(startup_timeout=60, cwd=str(ROOT))

    def start(self, code: str) -> str:
        """Have a cell run, also where the one before was interrupted only just now; its id."""
        return str(self._client.execute(code, store_history=False, stop_on_error=False))

    def end(self, cell: str) -> Any:
        """How it has ended, once it has."""
        while (reply := self._client.get_shell_msg(timeout=WAIT_S))["parent_header"].get("msg_id") != cell:
            pass
        return reply["content"]

    def close(self) -> None:
        self._client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_ten_interrupts_of_a_kernel_leave_all_as_it_was(
    etcd: Etcd, client: Client, stranger: Session, name: str, cell: str
) -> None:
    """Each ends its cell alone: the lock is free for others at once, the session goes on, and so do later cells."""
    kernel = Kernel()
    try:
        assert kernel.end(kernel.start(SETUP.format(endpoint=etcd.endpoint, name=name)))["status"] == "ok"
        for _ in range(10):
            running = kernel.start(cell)
            wait_until(lambda: keys(client, name), timeout=WAIT_S)
            kernel.manager.interrupt_kernel()
            assert kernel.end(running)["ename"] in ("KeyboardInterrupt", "CancelledError")
            Mutex(stranger, name).acquire(timeout=1.0).release()
        last = kernel.start(f"{cell.splitlines()[-1].strip()}\nassert not session.lost.is_set()\nsession.close()")
        assert kernel.end(last)["status"] == "ok"
        assert not keys(client, name)
    finally:
        kernel.close()
