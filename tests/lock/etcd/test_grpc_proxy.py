"""Through `etcd grpc-proxy`, which stands between a cluster and very many clients, a lock works as without it."""

from __future__ import annotations

from pathlib import Path

from loadtest.stack import programs
from loadtest.stack.ports import LOOPBACK
from loadtest.stack.process import Process
from loadtest.stack.servers import Etcd, answers_ok
from lock import Client, Mutex, Session, connect
from tests.support.lock import AT_ONCE_S, WAIT_S, queue_up


class GrpcProxy(Process):
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


def test_a_lock_works_through_the_proxy(etcd: Etcd, client: Client, stranger: Session, tmp_path: Path) -> None:
    """Every renewal is answered (the proxy takes half a second for one), also of a lease that is gone; turns come."""
    hold = Mutex(stranger, "grpc-proxy/hand-over").acquire(timeout=WAIT_S)
    with GrpcProxy(tmp_path, etcd.endpoint) as proxy, connect(proxy.endpoint, timeout=WAIT_S) as proxied:
        lease = proxied.grant(30)
        assert [proxied.keep_alive(lease.id) for _ in range(3)] == [30] * 3
        proxied.revoke(lease.id)
        assert proxied.keep_alive(lease.id) == 0
        with Session(proxied) as session:
            waiting = queue_up(client, Mutex(session, hold.name))
            hold.release()
            waiting.result(AT_ONCE_S).release()
