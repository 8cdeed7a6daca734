"""Through `etcd grpc-proxy`, which stands between a cluster and very many clients, a lock works as without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.stack import programs
from loadtest.stack.ports import LOOPBACK
from loadtest.stack.process import Process
from loadtest.stack.servers import Etcd, answers_ok
from lock import Client, Mutex, Session, connect
from tests.support.lock import AT_ONCE_S, WAIT_S, queue_up


class GrpcProxy(Process):
    """etcd's own proxy in front of one member."""

    def __init__(self, directory: Path, target: str) -> None:
        super().__init__("grpc-proxy", directory, port=0)
        self.endpoint = f"{LOOPBACK}:{self.port}"
        self._target = target

    def command(self) -> list[str]:
        flags = {
            "endpoints": self._target,
            "listen-addr": self.endpoint,
            "advertise-client-url": self.endpoint,  # where it calls itself
            "data-dir": str(self.directory / "data"),
        }
        return [str(programs.etcd()), "grpc-proxy", "start", *(f"--{flag}={value}" for flag, value in flags.items())]

    def is_ready(self) -> bool:
        return answers_ok(f"http://{self.endpoint}/health")


@pytest.fixture(scope="module")
def proxied(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client that reaches the shared etcd through its proxy."""
    with (
        GrpcProxy(tmp_path_factory.mktemp("proxy"), etcd.endpoint) as proxy,
        connect(proxy.endpoint, timeout=WAIT_S) as client,
    ):
        yield client


def test_a_lease_is_renewed_through_the_proxy(proxied: Client) -> None:
    """Every renewal is answered (the proxy takes half a second for one), also of a lease that is gone."""
    lease = proxied.grant(30)
    assert [proxied.keep_alive(lease.id) for _ in range(3)] == [30] * 3
    proxied.revoke(lease.id)
    assert proxied.keep_alive(lease.id) == 0


def test_the_lock_changes_hands_through_the_proxy(proxied: Client, client: Client, stranger: Session) -> None:
    """Who waits behind the proxy learns of its turn at once."""
    hold = Mutex(stranger, "grpc-proxy/hand-over").acquire(timeout=WAIT_S)
    with Session(proxied) as session:
        waiting = queue_up(client, Mutex(session, hold.name))
        hold.release()
        waiting.result(AT_ONCE_S).release()
