"""What the pages show, recorded on this machine by the commands of the repository.

What the folder of the recordings has already is not recorded again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from loadtest.__main__ import INTERRUPTED
from loadtest.shop_client.shops import get_json
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import STAGE_LEASE_S, Stack

ROOT = Path(__file__).parents[2]
GUARDS = ("none", "etcd")  # of the rushes
LEVELS = ("none", "thread", "etcd-unfenced", "etcd-checked", "etcd", "redis-lua")  # of labs/steps
SCENE = "pause"
ATTEMPTS = 3  # a machine that is disturbed gives no verdict
POLL_S = 0.02
SCENE_S = 120.0


class CannotRecord(Exception):
    """Something did not come out as it must; the message says what."""


def record(folder: Path, say: Callable[[str], None]) -> None:
    """Record what the folder does not have yet; raises CannotRecord, OSError, or ServerError of the stack."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (lab, make) in RECORDED.items():
        if (ROOT / "labs" / lab).exists() and not (folder / name).exists():
            say(name)
            with scratch_directory() as scratch:
                make(scratch, scratch / "made")
                shutil.move(scratch / "made", folder / name)
    names = [name for name in (*LEVELS, *mistakes()) if not (folder / graph_of(name)).exists()]
    if names and (ROOT / "labs/steps").exists():
        say(f"every order under {', '.join(names)}")
        graphs(folder / "graphs", names)


def rushes(scratch: Path, target: Path) -> None:
    """The records of a rush without a lock, and of one under etcd, by the same crowd."""
    _run(scratch, "demo", *(f"--guard={guard}" for guard in GUARDS))
    shutil.copytree(scratch / "reports/latest/records", target)


def scene(scratch: Path, target: Path) -> None:
    """The scene as its page was told of it: at what time which members changed."""
    env = {"FLASHSALE_LEASE_TTL": str(STAGE_LEASE_S), "FLASHSALE_ITEMS": "3"}
    with Stack(scratch, ports="free", board=True, durable=True, env=env) as stack:
        assert stack.board is not None
        for _ in range(ATTEMPTS):
            film = list(_film(stack.board.url))
            if film[-1][1].get("over") and not film[-1][1].get("problem"):
                target.write_text(json.dumps(film), encoding="utf-8")
                return
    raise CannotRecord(f"The scene {SCENE} had no verdict, {ATTEMPTS} times: this machine is too slow.")


def graphs(target: Path, names: Sequence[str]) -> None:
    """Every schedule of two purchases under these guards."""
    with scratch_directory() as scratch:
        _run(scratch, "schedules", *(f"--guard={name}" for name in names), "--record", str(target.resolve()))


def graph_of(guard: str) -> str:
    """The file of a graph, in the folder of the recordings."""
    return f"graphs/schedules-{guard}.json"


def mistakes() -> list[str]:
    """The names of the famous mistakes."""
    if not (ROOT / "labs/steps").exists():
        return []
    from labs.steps.mistakes import mistakes

    return list(mistakes())


def _film(board: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Play it; the reader is taken to go on at once where it waits."""
    _ask(f"{board}/scenes/start", {"scene": SCENE})
    began = time.monotonic()
    shown: dict[str, Any] = {}
    while not shown.get("over"):
        state = _ask(f"{board}/scenes/state")["show"]
        change = {name: value for name, value in state.items() if name not in shown or shown[name] != value}
        if change:
            yield round((time.monotonic() - began) * 1000), change
        shown = state
        if shown["waits"]:
            _ask(f"{board}/scenes/next", {})
        if time.monotonic() - began > SCENE_S:
            raise CannotRecord(f"The scene {SCENE} was not over after {SCENE_S:.0f} s.")
        time.sleep(POLL_S)


def _ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    return get_json(urllib.request.Request(url, data, {"Content-Type": "application/json"}))


def _run(scratch: Path, *words: str) -> None:
    """Run `python -m loadtest` in the scratch folder, where it leaves its reports."""
    command, env = [sys.executable, "-m", "loadtest", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
    # In a session of its own it is interrupted once, by us, and not by the terminal in the middle of that.
    with subprocess.Popen(command, cwd=scratch, env=env, start_new_session=True) as process:
        try:
            process.wait()
        except KeyboardInterrupt:
            process.terminate()  # the command says that it was interrupted
            process.wait()
            sys.exit(INTERRUPTED)
    if process.returncode:
        raise CannotRecord(f"{words[0]} did not end as it must: see above.")


RECORDED: dict[str, tuple[str, Callable[[Path, Path], None]]] = {  # by name: a lab that may have been deleted
    "records": ("", rushes),
    "scene.json": ("scenes", scene),
}
