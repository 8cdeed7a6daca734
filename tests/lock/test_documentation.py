"""docs/lock.md, docs/quickstart.md and lock/README.md: every example in them runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

from loadtest.ports import free_port
from loadtest.stack.servers import Etcd, Redis
from lock import Client, EtcdDenied, Mutex, Session, connect
from tests.support.lock import ROOT, WAIT_S, delete, keys, shell
from tests.support.secured import Certificates, SecuredEtcd
from tests.support.waiting import in_thread, wait_until

PAGE = ROOT / "docs" / "lock.md"
RECIPES = ROOT / "docs" / "lock-recipes.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"
EXAMPLES = ROOT / "docs" / "examples"
LOCKS = EXAMPLES / "locks.py"
MARKERS = "quickstart/reports"  # of nights that are reported
SECURED = "https://db1:2379"  # in the example that needs an etcd with certificates and users
DJANGO = EXAMPLES / "django_urls.py"


def blocks(language: str, page: Path = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def locks(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `locks` that the pages import, on the test's etcd."""
    module = ModuleType("locks")
    exec(LOCKS.read_text(encoding="utf-8").replace("127.0.0.1:2379", etcd.endpoint), vars(module))
    monkeypatch.setitem(sys.modules, "locks", module)
    return module


@pytest.mark.usefixtures("locks")
@pytest.mark.parametrize(("page", "left"), [(PAGE, ["docs/report/latest"]), (RECIPES, [])], ids=["lock", "recipes"])
def test_the_python_examples_run(etcd: Etcd, page: Path, left: list[str]) -> None:
    """Read from top to bottom, each Python example runs after those before it, and leaves no key of a lock in etcd."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    for code in blocks("python", page):
        if SECURED in code:
            continue
        local = code.replace("127.0.0.1:2379", etcd.endpoint)
        exec(compile(local, str(page), "exec", dont_inherit=True), namespace)
    if page is RECIPES:
        assert asyncio.run(served_by(namespace))["token"] > 0
    session, client = namespace["session"], namespace["client"]
    with connect(etcd.endpoint) as observer:
        assert observer.get_prefix("flash-sale/").keys == []
        assert [kv.key for kv in observer.get_prefix("docs/").keys] == left
        for key in left:
            delete(observer, key)
    session.close()
    client.close()


def test_the_fence_in_sql_refuses_a_late_holder() -> None:
    """Once a higher token has read, the lower one neither reads nor writes."""
    [code] = blocks("sql")
    read, write = [re.sub("--.*", "", statement) for statement in code.split(";")[:2]]
    with sqlite3.connect(":memory:", isolation_level=None) as database:
        database.execute("CREATE TABLE stock (item TEXT, left INTEGER, fence INTEGER)")
        database.execute("INSERT INTO stock VALUES ('pen', 10, 0)")

        def changed(statement: str, token: int) -> int:
            return database.execute(statement, {"token": token, "left": 9}).rowcount

        assert [changed(read, 41), changed(read, 45)] == [1, 1]
        assert [changed(write, 41), changed(read, 41), changed(write, 45)] == [0, 0, 1]


def test_the_fence_in_redis_refuses_late_readers_and_writers(redis_server: Redis) -> None:
    """A reader that a writer has overtaken gets nothing, and a writer that either has overtaken writes nothing."""
    read, write = (
        (ROOT / f"docs/examples/shared_{name}.lua").read_text(encoding="utf-8") for name in ("read", "write")
    )
    names = [f"{{shared}}:{part}" for part in ("fence", "mark", "net", "gross")]
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        client.delete(*names)

        def call(script: str, token: int, *values: str) -> Any:
            return client.eval(script, len(names), *names, f"{token:020}", *values)

        assert call(write, 1, "1", "1") == 1
        assert call(read, 3) == ["1", "1"]
        assert call(write, 2, "2", "2") == 0
        assert call(write, 4, "3", "3") == 1
        assert call(read, 3) is None
        assert call(write, 4, "4", "4") == 1  # the refused read has disturbed nothing
        client.delete(*names)


def test_the_helper_replaces_a_lost_session(locks: ModuleType) -> None:
    """`live_session` returns the same session until that is over, then another one."""
    first = locks.live_session()
    assert locks.live_session() is first
    first.close()  # as if it were lost
    assert locks.live_session() is not first
    locks.close_session()


async def served_by(namespace: dict[str, Any]) -> dict[str, int]:
    """What the endpoint for FastAPI answers, between start and end of the application."""
    async with namespace["lifespan"](None):
        answer: dict[str, int] = await namespace["endpoint"]()
        return answer


@pytest.mark.skipif(Certificates.program is None, reason="the openssl command makes the certificates")
def test_the_secured_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On an etcd with certificates, users and the role that it makes: it locks below its prefix alone."""
    [code] = [code for code in blocks("python") if SECURED in code]
    certificates = Certificates(tmp_path)
    certificate, key = certificates.sign("client")
    with SecuredEtcd(tmp_path, certificates) as server:
        for command in ("user add root:root-secret", "user grant-role root root"):
            server.etcdctl(*command.split())
        [commands] = blocks("bash")
        for command in commands.splitlines():
            server.etcdctl(*command.split()[1:])
        server.etcdctl("auth", "enable")
        paths = {"ca.pem": certificates.ca, "client.pem": certificate, "client-key.pem": key}
        paths[SECURED] = f"https://{server.endpoint}"
        for written, actual in paths.items():
            code = code.replace(f'"{written}"', f'"{actual}"')
        page: dict[str, Any] = {}
        exec(code, page)
        assert int(capsys.readouterr().out) > 0
        page["client"].close()
        with (
            connect(f"https://{server.endpoint}", tls=page["tls"], user="shop", password="secret") as client,
            Session(client) as session,
            pytest.raises(EtcdDenied),
        ):
            Mutex(session, "elsewhere/stock").acquire(timeout=5)


@pytest.mark.parametrize("is_wrong", [False, True], ids=["as written", "lock inside the transaction"])
def test_the_transaction_ends_inside_the_hold(tmp_path: Path, client: Client, session: Session, is_wrong: bool) -> None:
    """Two buy the last pen: as the recipe is written one gets it, but both if the lock is taken in the transaction."""
    import sqlalchemy  # slow, and every worker collects this file

    [code] = [code for code in blocks("python", RECIPES) if "sqlalchemy" in code]
    locks, database = "pens.acquire(timeout=5) as hold", "orm.Session(engine) as database, database.begin()"
    assert f"{locks}, {database}:" in code
    if is_wrong:
        code = code.replace(f"{locks}, {database}:", f"{database}, {locks}:")
    shop: dict[str, Any] = {"session": session}
    exec(code.replace("shop.db", str(tmp_path / "shop.db")), shop)
    engine = shop["engine"]
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE stock AS SELECT 1 AS pens"))
    reads: list[str] = []
    others: list[Future[bool]] = []

    def commit_late(_: object) -> None:
        """The other buyer reads the stock before this commit, if the lock lets it."""
        if not others:
            others.append(in_thread(shop["buy"]))
            wait_until(lambda: len(reads) == 2 or len(keys(client, "docs/pens")) == 2)

    sqlalchemy.event.listen(engine, "commit", commit_late)
    sqlalchemy.event.listen(
        engine, "after_cursor_execute", lambda *args: reads.append(args[2]) if args[2].startswith("SELECT") else None
    )
    assert [shop["buy"](), others[0].result(WAIT_S)] == [True, is_wrong]
    engine.dispose()


@pytest.mark.slow
def test_the_example_for_django_runs_in_a_new_project(tmp_path: Path, etcd: Etcd, client: Client) -> None:
    """Under runserver, whose autoreload runs it in a child, and ATOMIC_REQUESTS, a rush sells each pen once.

    Without the lock the view answers 503, and where it would run in a transaction, 500.
    """
    django = [sys.executable, "-m", "django"]
    subprocess.run([*django, "startproject", "shop", str(tmp_path)], check=True, timeout=60)
    with (tmp_path / "shop/settings.py").open("a") as settings:
        settings.write("DATABASES['default']['ATOMIC_REQUESTS'] = True\n")
    with contextlib.closing(sqlite3.connect(tmp_path / "db.sqlite3")) as database:
        database.execute("CREATE TABLE stock AS SELECT 3 AS pens")
    helper = LOCKS.read_text(encoding="utf-8")
    (tmp_path / "shop/locks.py").write_text(helper.replace("127.0.0.1:2379", etcd.endpoint))
    urls = DJANGO.read_text(encoding="utf-8")
    urls += "\n\ndef late(request):\n    return buy(request)\n\n\nurlpatterns.append(path('late', late))\n"
    (tmp_path / "shop/urls.py").write_text(urls.replace("timeout=5", "timeout=2"))
    port = free_port()
    command = [sys.executable, "manage.py", "runserver", f"127.0.0.1:{port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    url = f"http://127.0.0.1:{port}"
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **quiet) as server:
        try:
            wait_until(lambda: answer_of(f"{url}/none")[0] == 404)
            rush = [in_thread(answer_of, f"{url}/buy") for _ in range(6)]
            answers = [each.result(WAIT_S) for each in rush]
            assert sorted(answers) == [(200, "sold")] * 3 + [(200, "sold out")] * 3
            with Session(client) as session, Mutex(session, "docs/pens").acquire(timeout=5):
                assert answer_of(f"{url}/buy")[0] == 503
            assert answer_of(f"{url}/late")[0] == 500
        finally:
            os.killpg(server.pid, signal.SIGTERM)  # which closes the session, as any exit of Python does
    wait_until(lambda: client.get_prefix("docs/").keys == [])


def answer_of(url: str) -> tuple[int | None, str]:
    """Status and text; no status if there is no answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.reason
    except OSError:
        return None, ""


def test_the_quickstart_runs(
    etcd: Etcd, client: Client, session: Session, locks: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its examples run as they stand, and leave no key but the marker of the night that was reported.

    A report is turned away while another worker runs it, and where that marker is there; it is made the next night.
    """
    page: dict[str, Any] = {"__name__": "quickstart"}
    for code in blocks("python", QUICKSTART):
        exec(compile(code.replace("127.0.0.1:2379", etcd.endpoint), "quickstart", "exec", dont_inherit=True), page)
    assert keys(client, "quickstart") == [f"{MARKERS}/2026-11-29"]
    with Mutex(session, "quickstart/nightly").acquire(timeout=5):
        assert page["nightly_report"]("11-30") == "another worker runs it"
    assert keys(client, f"{MARKERS}/11-30") == []
    capsys.readouterr()
    calls = [page["nightly_report"](night) for night in ("11-30", "11-30", "12-01")]
    assert calls == ["done", "was done before", "done"]
    assert capsys.readouterr().out.splitlines() == ["report of 11-30", "report of 12-01"]
    page["worker_exit"](None, None)
    page["session"].close()
    page["client"].close()
    for key in keys(client, MARKERS):
        delete(client, key)
    assert client.get_prefix("quickstart/").keys == []


def test_the_example_of_the_readme_runs(etcd: Etcd, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """What the README of the library shows first runs, and leaves nothing."""
    [code] = blocks("python", ROOT / "lock" / "README.md")
    exec(code.replace("127.0.0.1:2379", etcd.endpoint), {})
    assert "readme/stock/" in capsys.readouterr().out
    assert client.get_prefix("readme/").keys == []


def test_the_shell_examples_run(client: Client, etcdctl_env: dict[str, str]) -> None:
    """Each line of each shell example succeeds, around another program than Celery, and they leave no key."""
    path = os.pathsep.join([str(Path(sys.executable).parent), etcdctl_env["PATH"]])
    for script in [*blocks("sh"), *(script for script in blocks("sh", QUICKSTART) if "celery" in script)]:
        done = shell(script.replace("celery -A shop beat", "echo ticks"), {**etcdctl_env, "PATH": path})
        assert done.returncode == 0
        assert done.stderr == ""
        assert done.stdout == "ticks\n" or "celery" not in script
        # A waiter that was woken finds that the key before its own is gone: of all conditions, that one alone fails.
        assert done.stdout.count("FAILURE") == script.count("lock trace")
    assert client.get_prefix("docs/").keys == []
