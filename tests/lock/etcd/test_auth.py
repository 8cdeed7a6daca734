"""User and password, whose tokens expire while callers need not notice; and certificates."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadtest.stack.proxy import Proxy
from lock import Client, EtcdDenied, EtcdError, LockLost, Mutex, Semaphore, Session, connect
from lock.__main__ import main
from lock.cli.exit_codes import Exit
from lock.core.queue import Queue
from lock.etcd.auth import Login
from tests.support.lock import WAIT_S, Changes, await_followed, delete, keys, queue_up, shell
from tests.support.secured import ROOT_PASSWORD, SHOP_PASSWORD, Certificates, LoginEtcd, TlsEtcd
from tests.support.waiting import Patch, assert_raises, out_of_threads, wait_until

TOKEN_S = 2.5  # without use, etcd forgets a token after one second, which it checks once a second


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginEtcd]:
    with LoginEtcd(tmp_path_factory.mktemp("login")) as server:
        server.require_login()
        yield server


@pytest.fixture
def shop(server: LoginEtcd) -> Iterator[Client]:
    """A client that may touch what is below ``shop/``."""
    with connect(server.endpoint, user="shop", password=SHOP_PASSWORD) as client:
        yield client


@pytest.fixture
def root(server: LoginEtcd) -> Iterator[Client]:
    """A client that may do everything, for looking."""
    with connect(server.endpoint, user="root", password=ROOT_PASSWORD) as client:
        yield client


def test_what_is_denied_is_asked_once(shop: Client, monkeypatch: Patch) -> None:
    """The token is good, so the client does not log in again: etcd makes checking a password expensive on purpose."""
    shop.get_prefix("shop/")
    monkeypatch.setattr(shop.endpoints[0].auth, "Authenticate", out_of_threads)
    assert_raises(EtcdDenied, shop.get_prefix, "elsewhere/")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda mutex: mutex.acquire(timeout=WAIT_S),
        Mutex.try_acquire,
        lambda mutex: Semaphore(mutex.session, mutex.name, 2).try_acquire(),
    ],
    ids=["acquire", "try_acquire", "semaphore"],
)
def test_what_a_user_may_not_is_denied(shop: Client, attempt: Callable[[Mutex], object]) -> None:
    """EtcdDenied names the lock and says where to look; no key is written, so none is deleted, again and again."""
    with Session(shop, ttl=10) as session:
        assert_raises(EtcdDenied, attempt, Mutex(session, "elsewhere/a"), match="^lock 'elsewhere/a': .*roles")
        assert not session._engine.core.tickets


def test_a_watch_that_is_refused_ends_no_other(server: LoginEtcd, root: Client) -> None:
    """It shares a stream with others, which is opened anew: they miss nothing that a list does not tell."""
    with connect(server.endpoint, user="shop", password=SHOP_PASSWORD) as client, Session(client, ttl=60) as session:
        mutex = Mutex(session, "shop/undisturbed")
        with Session(root, ttl=60) as stranger:
            hold = Mutex(stranger, mutex.name).acquire(timeout=WAIT_S)
            waiting = queue_up(root, mutex)
            await_followed(session, mutex.name, 2)
            assert_raises(EtcdError, denied, Changes(client, "elsewhere/"), match="ended the watch")
            hold.release()
            waiting.result(WAIT_S).release()


def denied(changes: Changes) -> None:
    """Read a watch through all that comes before it is denied."""
    while True:
        try:
            changes.next(WAIT_S)
        except EtcdDenied:
            raise
        except EtcdError:
            continue


def test_a_new_token_is_not_thrown_away_for_an_old_one() -> None:
    """Threads that find the same token expired log in once: etcd makes checking a password expensive on purpose."""
    login = Login("shop", SHOP_PASSWORD)
    tokens = ["first", "second"]

    def token() -> str:
        return login.token(lambda asked: asked.set_result(tokens.pop(0))).result(WAIT_S)

    found = [token(), token()]
    for old in found:
        login.forget(old)
        assert token() == "second"


class JwtEtcd(LoginEtcd):
    """An etcd whose tokens say as of which revision of the roles they are."""

    def command(self) -> list[str]:
        (key := self.directory / "jwt.key").write_bytes(bytes(range(64)))
        token = f"--auth-token=jwt,priv-key={key},sign-method=HS256,ttl=10m"
        return [*(word for word in super().command() if not word.startswith("--auth-token")), token]


def test_a_token_from_before_a_change_of_the_roles_is_renewed(tmp_path: Path) -> None:
    """etcd calls a JSON Web Token too old as soon as anything about users and roles has changed."""
    with JwtEtcd(tmp_path) as server, connect(server.endpoint, user="shop", password=SHOP_PASSWORD) as client:
        server.require_login()
        client.get_prefix("shop/")
        server.etcdctl("--user", f"root:{ROOT_PASSWORD}", "role", "add", "another")
        assert client.get_prefix("shop/").revision


def test_a_wrong_password_is_denied_and_so_is_none(server: LoginEtcd) -> None:
    """EtcdDenied, not a timeout."""
    with connect(server.endpoint, user="shop", password="wrong") as client:
        assert_raises(EtcdDenied, client.grant, 5, match="password")
    with connect(server.endpoint) as client:
        assert_raises(EtcdDenied, client.get_prefix, "shop/")


def test_the_command_logs_in(server: LoginEtcd, etcdctl_env: dict[str, str]) -> None:
    """--user NAME:PASSWORD or ETCDCTL_USER lets in; a wrong password is exit 77."""
    env = etcdctl_env | {"ETCDCTL_ENDPOINTS": server.endpoint}
    command = [sys.executable, "-m", "lock", "--user", f"root:{ROOT_PASSWORD}", "command", "--", "echo", "in"]
    assert subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S).stdout == "in\n"
    as_root = {"ETCDCTL_USER": "root", "ETCDCTL_PASSWORD": ROOT_PASSWORD}
    assert CliRunner().invoke(main, ["contenders", "command"], env=env | as_root).exit_code == 0
    denied = CliRunner().invoke(main, ["contenders", "command", "--user", "root:wrong"], env=env)
    assert denied.exit_code == Exit.DENIED


@pytest.fixture
def proxy(server: LoginEtcd) -> Iterator[Proxy]:
    with Proxy(server.endpoint) as proxy:
        yield proxy


def test_one_logs_in_where_one_is_answered(server: LoginEtcd, proxy: Proxy) -> None:
    """The next endpoint is asked for the token, too."""
    proxy.refuse()
    endpoints = f"{proxy.endpoint},{server.endpoint}"
    with connect(endpoints, user="shop", password=SHOP_PASSWORD) as client:
        assert client.get_prefix("shop/").revision


@pytest.fixture
def session(proxy: Proxy) -> Iterator[Session]:
    """A session that does not call etcd by itself during a test, for its lease is long."""
    with connect(proxy.endpoint, user="shop", password=SHOP_PASSWORD) as client, Session(client, ttl=600) as session:
        yield session


def test_expired_tokens_are_renewed(
    session: Session, server: LoginEtcd, shop: Client, proxy: Proxy, root: Client, monkeypatch: Patch
) -> None:
    """After a long silence calls, watch, wait and hold log in again; the wait learns its turn, the hold its loss."""
    monkeypatch.setattr(Queue, "audit_s", 600.0)
    with (
        Session(root, ttl=60) as stranger,
        connect(server.endpoint, user="shop", password=SHOP_PASSWORD) as watching,
        connect(proxy.endpoint, user="shop", password=SHOP_PASSWORD) as other,
        Session(other, ttl=600) as holding,
    ):
        held = Mutex(holding, "shop/hold").acquire(timeout=WAIT_S)
        hold = Mutex(stranger, "shop/wait").acquire(timeout=WAIT_S)
        waiting = queue_up(root, Mutex(session, "shop/wait"))
        for client in (shop, watching):
            client.get_prefix("shop/")
        time.sleep(TOKEN_S)
        with ThreadPoolExecutor(20) as pool:
            answers = [pool.submit(shop.get_prefix, "shop/") for _ in range(40)]
            assert all(answer.result(WAIT_S).revision for answer in answers)
        wait_until(lambda: can_watch(watching))
        proxy.reset()
        hold.release()
        delete(root, held.key)
        with waiting.result(WAIT_S) as mine:
            assert keys(root, "shop/wait") == [mine.key]
        assert held.lost.wait(WAIT_S)
        assert_raises(LockLost, held.release, match="deleted")


def can_watch(client: Client) -> bool:
    try:
        return next(iter(Changes(client, "shop/expired/"))) == []
    except EtcdError:
        return False


# TLS and mutual TLS, with certificates made for the test


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    if Certificates.program is None:
        pytest.skip("the openssl command makes the certificates")
    return Certificates(tmp_path)


def test_both_sides_show_a_certificate(tmp_path: Path, certificates: Certificates, etcdctl_env: dict[str, str]) -> None:
    """--cacert, --cert and --key, or etcdctl's variables, speak TLS; what `trace` prints does so with etcdctl."""
    cert, key = certificates.sign("client")
    with TlsEtcd(tmp_path, certificates, mutual=True) as server:
        env = etcdctl_env | {"ETCDCTL_ENDPOINTS": f"https://{server.endpoint}"}
        options = ["--cacert", certificates.ca, "--cert", cert, "--key", key]
        command = [sys.executable, "-m", "lock", *options, "tls/command", "--", "echo", "in"]
        assert subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S).stdout == "in\n"
        assert CliRunner().invoke(main, [*options[:2], "contenders", "tls/command"], env=env).exit_code != 0
        env |= {"ETCDCTL_CACERT": certificates.ca, "ETCDCTL_CERT": cert, "ETCDCTL_KEY": key}
        script = CliRunner().invoke(main, ["trace", "tls/trace"], env=env).stdout
        done = shell(script, etcdctl_env)
    assert (done.returncode, done.stdout.count("SUCCESS"), done.stdout.count("FAILURE")) == (0, 4, 1)
