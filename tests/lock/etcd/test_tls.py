"""TLS and mutual TLS against a real etcd, with certificates made for the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lock import Mutex, Session, Tls, connect
from lock.__main__ import main
from tests.support.lock import WAIT_S
from tests.support.secured import Certificates, TlsEtcd

pytestmark = pytest.mark.skipif(Certificates.program is None, reason="the openssl command makes the certificates")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[TlsEtcd]:
    """An etcd that shows a certificate and wants one."""
    with TlsEtcd(tmp_path_factory.mktemp("etcd"), certificates, mutual=True) as server:
        yield server


def locks(endpoint: str, tls: Tls | None) -> bool:
    with (
        connect(endpoint, tls=tls, timeout=3.0) as client,
        Session(client) as session,
        Mutex(session, "tls/a").acquire(timeout=5) as hold,
    ):
        return hold.token > 0


def test_a_server_with_a_certificate(tmp_path: Path, certificates: Certificates) -> None:
    """The authority is enough where the server does not ask who the client is."""
    with TlsEtcd(tmp_path, certificates, mutual=False) as server:
        assert locks(f"https://{server.endpoint}", Tls(certificates.ca))


def test_both_sides_show_a_certificate(server: TlsEtcd, certificates: Certificates) -> None:
    """Mutual TLS: the client's certificate and key are given too."""
    certificate, key = certificates.sign("client")
    assert locks(f"https://{server.endpoint}", Tls(certificates.ca, certificate, key))


def test_the_command_shows_its_certificate(
    server: TlsEtcd, certificates: Certificates, etcdctl_env: dict[str, str]
) -> None:
    """--cacert, --cert and --key, or etcdctl's variables, speak TLS; what `trace` prints does so with etcdctl."""
    cert, key = certificates.sign("client")
    env = etcdctl_env | {"ETCDCTL_ENDPOINTS": f"https://{server.endpoint}"}
    options = ["--cacert", certificates.ca, "--cert", cert, "--key", key]
    command = [sys.executable, "-m", "lock", *options, "tls/command", "--", "echo", "in"]
    assert subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S).stdout == "in\n"
    assert CliRunner().invoke(main, [*options[:2], "contenders", "tls/command"], env=env).exit_code != 0
    env |= {"ETCDCTL_CACERT": certificates.ca, "ETCDCTL_CERT": cert, "ETCDCTL_KEY": key}
    script = CliRunner().invoke(main, ["trace", "tls/trace"], env=env).stdout
    done = subprocess.run(["sh", "-eu"], input=script, env=etcdctl_env, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stdout.count("SUCCESS")) == (0, 4)
