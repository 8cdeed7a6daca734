"""docs/lock.md and lock/README.md: every example in them runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

import lock.aio
from loadtest.stack.servers import Etcd, Redis
from lock import Client, connect
from tests.support.lock import ROOT, delete, shell

PAGE = ROOT / "docs" / "lock.md"
RECIPES = ROOT / "docs" / "lock-recipes.md"


def blocks(language: str, page: Path = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "left"), [(PAGE, ["docs/report/latest"]), (RECIPES, ["docs/gross", "docs/net"])], ids=["lock", "recipes"]
)
def test_the_python_examples_run(etcd: Etcd, redis_server: Redis, page: Path, left: list[str]) -> None:
    """Read from top to bottom, each Python example runs after those before it, and leaves no key of a lock in etcd."""
    here = etcd.endpoint.rpartition(":")[2]
    namespace: dict[str, object] = {"__name__": page.stem}
    for code in blocks("python", page):
        local = code.replace("127.0.0.1:2379", etcd.endpoint).replace("port=2379", f"port={here}")
        local = local.replace("redis://127.0.0.1:6379/0", redis_server.url)
        exec(compile(local, str(page), "exec", dont_inherit=True), namespace)
    session, client = namespace["session"], namespace["client"]
    with connect(etcd.endpoint) as observer:
        assert observer.get_prefix("flash-sale/").keys == []
        assert [kv.key for kv in observer.get_prefix("docs/").keys] == left
        for key in left:
            delete(observer, key)
    session.close()  # type: ignore[attr-defined]
    client.close()  # type: ignore[attr-defined]
    with redis.Redis.from_url(redis_server.url) as shop:
        shop.flushdb()


def test_the_example_of_the_readme_runs(etcd: Etcd, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """What the README of the library shows first runs, and leaves nothing."""
    [code] = blocks("python", ROOT / "lock" / "README.md")
    exec(code.replace("127.0.0.1:2379", etcd.endpoint), {})
    assert "readme/stock/" in capsys.readouterr().out
    assert client.get_prefix("readme/").keys == []


def test_the_shell_examples_run(client: Client, etcdctl_env: dict[str, str]) -> None:
    """Each line of each shell example succeeds, and they leave no key."""
    path = os.pathsep.join([str(Path(sys.executable).parent), etcdctl_env["PATH"]])
    for script in blocks("sh"):
        done = shell(script, {**etcdctl_env, "PATH": path})
        assert (done.returncode, done.stderr) == (0, "")
        assert "FAILURE" not in done.stdout
    assert client.get_prefix("docs/").keys == []


def test_the_reference_is_complete_and_up_to_date() -> None:
    """docs/lock-api.md is what the script makes of the docstrings, and has every public name of both modules."""
    checked = subprocess.run([sys.executable, ROOT / "scripts/lock_api.py", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    text = (ROOT / "docs" / "lock-api.md").read_text(encoding="utf-8")
    for module, names in (("lock", lock.__all__), ("lock.aio", lock.aio.__all__)):
        assert [name for name in names if not re.search(rf"^### `{module}\.{name}\b", text, re.MULTILINE)] == []


def test_tasks_have_what_threads_have() -> None:
    """By the reference, locks and holds of lock.aio have the methods and attributes of those of lock, but for a few."""
    text = (ROOT / "docs" / "lock-api.md").read_text(encoding="utf-8")
    told: dict[str, set[str]] = {}
    for name, section in re.findall(r"^### `([\w.]+)(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL):
        methods = re.findall(r"^- \*\*`(?:async )?(\w+)", section, re.MULTILINE)
        told[name] = {*methods, *re.findall(r"^- `(\w+)`:", section.partition("*Attributes*")[2], re.MULTILINE)}
    shared = [name for name in lock.aio.__all__ if f"lock.{name}" in told]
    missing = {f"{name}.{each}" for name in shared for each in told[f"lock.{name}"] - told[f"lock.aio.{name}"]}
    assert missing == {"Election.leader", "Election.observe", "Leadership.resign"}
