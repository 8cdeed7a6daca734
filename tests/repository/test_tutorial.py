"""docs/tutorial.md: it quotes the files beside it, and its commands sell and oversell as it shows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from loadtest.ports import free_port
from loadtest.stack.servers import Etcd, Redis

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^```sh\n(python .*?)^```\n\n```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def verdicts(output: str) -> list[str]:
    """The lines in order of name, each number alike but those of an exact sale; bob and ada may answer in any order."""
    lines = [line for line in output.splitlines() if "Terminated" not in line]  # which the shell says of a server
    return sorted(line if line.startswith("EXACT") else re.sub(r"\d+", "N", line) for line in lines)


def test_the_page_shows_the_files_as_they_are() -> None:
    """Each Python file beside the page is linked, and quoted in part; the scripts that click are linked."""
    quoted = re.findall(r"\[`([\w.]+)`\]\(tutorial/\1\):\n\n```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/tutorial").glob("*.py")}
    assert {name for name, part in quoted if part in files[name]} == files.keys()
    assert len(quoted) == len(files) == TEXT.count("```python")
    assert all(f"](tutorial/{path.name})" in TEXT for path in (ROOT / "docs/tutorial").glob("*.sh"))
    assert len(STEPS) == 6


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl, by which the page's buyers click")
@pytest.mark.timeout(300)
def test_the_steps_end_as_the_page_shows(etcd: Etcd, redis_server: Redis) -> None:
    """Pasted into one shell, one after the other, each step's commands print the verdict on the page."""
    commands = "echo ---\n".join(commands for commands, _ in STEPS)
    first, second = str(free_port()), str(free_port())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    servers = {"REDIS_URL": redis_server.url, "ETCD": etcd.endpoint}
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **servers}
    shell = subprocess.Popen(
        ["sh", "-c", commands.replace("5001", first).replace("5002", second)], cwd=ROOT, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = shell.communicate(timeout=250)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # whatever is left, also where a step has failed
        shell.wait()
        with redis.Redis.from_url(redis_server.url) as store:
            store.delete("{tutorial}:stock", "{tutorial}:orders", "{tutorial}:fence")
    assert [verdicts(each) for each in output.split("---\n")] == [verdicts(shown) for _, shown in STEPS], output
