"""User and password, whose tokens expire while callers need not notice; and certificates."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
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
from tests.support.secured import ROOT_PASSWORD, SHOP_PASSWORD, Certificates, LoginEtcd, SecuredEtcd
from tests.support.waiting import Patch, assert_raises, out_of_threads, wait_until

TOKEN_S = 2.5  # without use, etcd forgets a token after one second, which it checks once a second


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginEtcd]:
    with LoginEtcd(tmp_path_factory.mktemp("login")) as server:
        server.require_login()
        yield server


def as_shop(endpoints: str) -> Client:
    """A client that may touch what is below ``shop/``."""
    return connect(endpoints, user="shop", password=SHOP_PASSWORD, timeout=WAIT_S)


@pytest.fixture
def root(server: LoginEtcd) -> Iterator[Session]:
    """A session that may do everything."""
    with connect(server.endpoint, user="root", password=ROOT_PASSWORD) as client, Session(client, ttl=60) as session:
        yield session


def test_what_a_user_may_not_is_denied(server: LoginEtcd, monkeypatch: Patch) -> None:
    """EtcdDenied, not a timeout: for a wrong password, for none, and for a lock, which it names; no key is left.

    A token that is good is kept: etcd makes checking a password expensive on purpose.
    """
    with connect(server.endpoint, user="shop", password="wrong") as client:
        assert_raises(EtcdDenied, client.grant, 5, match="password")
    with connect(server.endpoint) as client:
        assert_raises(EtcdDenied, client.get_prefix, "shop/")
    with as_shop(server.endpoint) as shop, Session(shop, ttl=10) as session:
        monkeypatch.setattr(shop.endpoints[0].auth, "Authenticate", out_of_threads)
        mutex, permits = Mutex(session, "elsewhere/a"), Semaphore(session, "elsewhere/a", 2)
        for attempt in (mutex.acquire, mutex.try_acquire, permits.try_acquire):
            assert_raises(EtcdDenied, attempt, match="^lock 'elsewhere/a': .*roles")
        assert not session._engine.core.tickets


def test_a_watch_that_is_refused_ends_no_other(server: LoginEtcd, root: Session) -> None:
    """It shares a stream with others, which is opened anew: they miss nothing that a list does not tell."""
    with as_shop(server.endpoint) as client, Session(client, ttl=60) as session:
        hold = Mutex(root, "shop/undisturbed").acquire(timeout=WAIT_S)
        waiting = queue_up(root.client, Mutex(session, hold.name))
        await_followed(session, hold.name)
        changes, error = Changes(client, "elsewhere/"), EtcdError("")
        while not isinstance(error, EtcdDenied):
            with pytest.raises(EtcdError) as told:
                changes.next()
            error = told.value
        assert "ended the watch" in str(error)
        hold.release()
        waiting.result(WAIT_S).release()


def test_a_new_token_is_not_thrown_away_for_an_old_one() -> None:
    """Threads that find the same token expired log in once."""
    login, tokens = Login("shop", SHOP_PASSWORD), ["first", "second"]
    for old in ("first", "first", "second"):
        token = login.token(lambda asked: asked.set_result(tokens.pop(0))).result(WAIT_S)
        assert token == ("first" if tokens else "second")
        login.forget(old)


class JwtEtcd(LoginEtcd):
    """An etcd whose tokens say as of which revision of the roles they are."""

    def command(self) -> list[str]:
        (key := self.directory / "jwt.key").write_bytes(bytes(range(64)))
        token = f"--auth-token=jwt,priv-key={key},sign-method=HS256,ttl=10m"
        return [*(word for word in super().command() if not word.startswith("--auth-token")), token]


def test_a_token_from_before_a_change_of_the_roles_is_renewed(tmp_path: Path) -> None:
    """etcd calls a JSON Web Token too old as soon as anything about users and roles has changed."""
    with JwtEtcd(tmp_path) as server, as_shop(server.endpoint) as client:
        server.require_login()
        client.get_prefix("shop/")
        server.etcdctl("--user", f"root:{ROOT_PASSWORD}", "role", "add", "another")
        assert client.get_prefix("shop/").revision


def test_expired_tokens_are_renewed(server: LoginEtcd, root: Session, monkeypatch: Patch) -> None:
    """After a long silence calls, watch, wait and hold log in again; the wait learns its turn, the hold its loss.

    They do so at the endpoint that answers.
    """
    monkeypatch.setattr(Queue, "audit_s", 600.0)
    with Proxy(server.endpoint) as proxy, Proxy(server.endpoint) as refusing:
        refusing.refuse()
        with (
            as_shop(f"{refusing.endpoint},{server.endpoint}") as shop,
            as_shop(server.endpoint) as watcher,
            as_shop(proxy.endpoint) as waiter,
            as_shop(proxy.endpoint) as holder,
            Session(waiter, ttl=600) as waits,
            Session(holder, ttl=600) as holds,
        ):
            held = Mutex(holds, "shop/hold").acquire(timeout=WAIT_S)
            hold = Mutex(root, "shop/wait").acquire(timeout=WAIT_S)
            waiting = queue_up(root.client, Mutex(waits, "shop/wait"))
            for client in (shop, watcher):
                client.get_prefix("shop/")
            time.sleep(TOKEN_S)
            with ThreadPoolExecutor(20) as pool:
                assert all(pool.map(lambda _: shop.get_prefix("shop/").revision, range(40)))
            wait_until(lambda: can_watch(watcher))
            proxy.reset()
            hold.release()
            delete(root.client, held.key)
            with waiting.result(WAIT_S) as mine:
                assert keys(root.client, "shop/wait") == [mine.key]
            assert held.lost.wait(WAIT_S)
            assert_raises(LockLost, held.release, match="deleted")


def can_watch(client: Client) -> bool:
    try:
        return Changes(client, "shop/expired/").next() == []
    except EtcdError:
        return False


@pytest.mark.skipif(Certificates.program is None, reason="the openssl command makes the certificates")
def test_the_command_shows_a_certificate_and_logs_in(tmp_path: Path, etcdctl_env: dict[str, str]) -> None:
    """By options or etcdctl's variables; a wrong password is exit 77. What `trace` prints does so with etcdctl."""
    certificates = Certificates(tmp_path)
    cert, key = certificates.sign("client")
    with SecuredEtcd(tmp_path, certificates) as server:
        server.require_login()
        env = etcdctl_env | {"ETCDCTL_ENDPOINTS": f"https://{server.endpoint}"}
        certified = ["--cacert", certificates.ca, "--cert", cert, "--key", key]
        options = [*certified, "--user", f"root:{ROOT_PASSWORD}"]
        command = [sys.executable, "-m", "lock", *options, "secured", "--", "echo", "in"]
        assert subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S).stdout == "in\n"
        for wrong, code in ((certified[:2], Exit.UNAVAILABLE), ([*certified, "--user", "root:wrong"], Exit.DENIED)):
            assert CliRunner().invoke(main, [*wrong, "contenders", "secured"], env=env).exit_code == code
        env |= {"ETCDCTL_CACERT": certificates.ca, "ETCDCTL_CERT": cert, "ETCDCTL_KEY": key}
        password = {"ETCDCTL_PASSWORD": ROOT_PASSWORD}
        script = CliRunner().invoke(main, ["trace", "secured"], env=env | password | {"ETCDCTL_USER": "root"}).stdout
        done = shell(script.replace("lease grant 10 ", "lease grant 600 "), etcdctl_env | password)  # on a busy machine
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("SUCCESS") == 4
    assert done.stdout.count("FAILURE") == 1
