"""What tests of the lock share: a client and sessions of the shared etcd, and etcdctl pointed at it."""

from __future__ import annotations

import gc
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from loadtest.stack import binaries
from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd, EtcdCluster
from lock import Client, Mutex, Session, connect


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """Three members, which end with the module: idle they cost as much as some tests."""
    with EtcdCluster(tmp_path_factory.mktemp("cluster")) as trio:
        yield trio


@pytest.fixture
def cluster(trio: EtcdCluster) -> Iterator[EtcdCluster]:
    """Three members that a test may kill; those that it leaves dead are started again."""
    yield trio
    dead = [member for member in trio.members if not member.running]
    for member in dead:
        member.launch()
    for member in dead:
        member.wait_ready()


@pytest.fixture
def client(etcd: Etcd) -> Iterator[Client]:
    with connect(etcd.endpoint) as client:
        yield client


@pytest.fixture
def calls() -> Counter[str]:
    """How often `counted` has made which call of etcd."""
    return Counter()


@pytest.fixture
def counted(etcd: Etcd, calls: Counter[str]) -> Iterator[Client]:
    with connect(etcd.endpoint, observer=lambda call, *_: calls.update([call])) as counted:
        yield counted


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    """This process's session."""
    with Session(client, ttl=10, name="ours") as session:
        yield session


@pytest.fixture
def stranger(client: Client) -> Iterator[Session]:
    """A session that stands for another process."""
    with Session(client, ttl=10, name="stranger") as session:
        yield session


@pytest.fixture
def mutex(session: Session, name: str) -> Mutex:
    return Mutex(session, name)


@pytest.fixture
def theirs(stranger: Session, name: str) -> Mutex:
    """The same lock in another process."""
    return Mutex(stranger, name)


@pytest.fixture
def etcdctl_env(etcd: Etcd) -> dict[str, str]:
    """An environment in which `etcdctl` is on PATH and talks to the shared etcd."""
    path = os.pathsep.join([str(binaries.etcdctl().parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "ETCDCTL_ENDPOINTS": etcd.endpoint}


@pytest.fixture
def etcdctl(etcdctl_env: dict[str, str]) -> Callable[..., str]:
    """Runs etcdctl with these arguments; its output."""

    def run(*args: str) -> str:
        command = [str(binaries.etcdctl()), *args]
        return subprocess.run(command, env=etcdctl_env, capture_output=True, text=True, timeout=20, check=True).stdout

    return run


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^\w/]+", "-", f"{request.path.stem}/{request.node.name}")


@pytest.fixture
def proxy(etcd: Etcd) -> Iterator[Proxy]:
    """A network that can fail, between a client and the shared etcd."""
    with Proxy(etcd.endpoint) as proxy:
        yield proxy


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Client]:
    """A client behind that network."""
    with connect(proxy.endpoint, timeout=1.0) as client:
        yield client


@pytest.fixture
def both(etcd: Etcd, proxy: Proxy) -> Iterator[Client]:
    """A client with an endpoint behind that network, and one that always answers."""
    with connect(f"{proxy.endpoint},{etcd.endpoint}", timeout=2.0) as both:
        yield both


@pytest.fixture
def far_session(far: Client) -> Iterator[Session]:
    """A session behind that network, with a lease that outlives every test."""
    with Session(far, ttl=600, name="far") as session:
        yield session


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    """Objects in a reference cycle stay: when they would be collected is not known."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
