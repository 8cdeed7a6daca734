"""`python -m lock NAME -- COMMAND`: the command is run as the shell itself would, and ends with all its processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lock import Client, Mutex, Session
from lock.cli import guardian
from lock.cli.exit_codes import Exit
from tests.lock.cli.conftest import LOCK
from tests.support.lock import AT_ONCE_S, delete, keys
from tests.support.terminal import WAIT_S, Terminal
from tests.support.waiting import freeze, has_ended, wait_until

# Each starts a process in its own way, and prints its id; the last one for good, as what follows ignores SIGTERM, too.
SCATTERED = {
    "another group": "timeout 1000 sleep 1000 & echo $!",
    "a job": "set -m; sleep 1000 & echo $!; set +m",
    "another session": "setsid sleep 1000 & echo $!",
    "an orphan": "(setsid sh -c 'sleep 1000 & echo $!')",
    "an orphan without the environment": "(env -i setsid sh -c 'sleep 1000 & echo $!')",
    "a child that ignores SIGTERM": "trap '' TERM; sleep 1000 & echo $!",
}
EVERY = "; ".join(SCATTERED.values())


class Job:
    """A command under the lock that has started other processes."""

    def __init__(self, name: str, script: str, env: dict[str, str], *options: str) -> None:
        self.name = name
        command = [*LOCK, "--grace", "0.2", *options, name, "--", "bash", "-c", f"{script}; echo $$; sleep 1000"]
        self.keeper = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.keeper.stdout is not None
        pids = [int(self.keeper.stdout.readline()) for _ in range(script.count("echo $!") + 1)]
        self.processes = [psutil.Process(pid) for pid in pids]
        self.guardian = psutil.Process(self.processes[-1].ppid())

    def lose(self, client: Client) -> None:
        delete(client, keys(client, self.name)[0])

    def has_ended(self) -> bool:
        return all(map(has_ended, (*self.processes, self.guardian)))

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for each in (*self.processes, self.guardian, self.keeper):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self.keeper.communicate(timeout=WAIT_S)


@pytest.mark.parametrize(
    ("script", "fault", "code"),
    [
        (EVERY, lambda job, client: job.lose(client), Exit.LOST),
        (EVERY, lambda job, client: job.keeper.kill(), -signal.SIGKILL),
        (EVERY, lambda job, client: job.guardian.kill(), Exit.FAILED),
        (EVERY, lambda job, client: job.guardian.suspend() or job.lose(client), Exit.LOST),
        (SCATTERED["an orphan"], lambda job, client: job.keeper.terminate(), 128 + signal.SIGTERM),
    ],
    ids=["lost", "the keeper is killed", "the guardian is killed", "lost while the guardian is stopped", "SIGTERM"],
)
def test_every_process_ends_with_the_lock(
    client: Client, name: str, etcdctl_env: dict[str, str], script: str, fault: Callable[[Job, Client], None], code: int
) -> None:
    """Also those in other groups and sessions, and orphans; keeper and guardian do each other's work if one fails."""
    with Job(name, script, etcdctl_env) as job:
        fault(job, client)
        assert job.keeper.wait(WAIT_S) == code
        wait_until(job.has_ended, timeout=WAIT_S)
        wait_until(lambda: code == -signal.SIGKILL or keys(client, name) == [])


@pytest.mark.flaky(reruns=1, reason="the end of a child at the lease's deadline")
@pytest.mark.parametrize("guarded", [True, False], ids=["the keeper is stopped", "keeper and guardian are stopped"])
def test_no_process_runs_on_beside_the_next_holder(
    stranger: Session, name: str, etcdctl_env: dict[str, str], guarded: bool
) -> None:
    """A keeper that is stopped cannot renew: the guardian ends the command, SIGTERM ignored or not, by the lease's end.

    One that wakes up after it does so at once. The exit code tells it as a loss.
    """
    options = ["--ttl", "4", "--grace", "60"]
    with Job(name, SCATTERED["a child that ignores SIGTERM"], etcdctl_env, *options) as job:
        freeze(job.keeper)
        if not guarded:
            job.guardian.suspend()
        with Mutex(stranger, name).acquire(timeout=WAIT_S):
            running = [each for each in job.processes if not has_ended(each)]
            assert not guarded or running == []
            job.guardian.resume()
            wait_until(lambda: all(map(has_ended, job.processes)), timeout=AT_ONCE_S)
        job.keeper.send_signal(signal.SIGCONT)
        assert job.keeper.wait(WAIT_S) == Exit.LOST
        assert job.has_ended()


def test_descriptors_reach_the_command(name: str, etcdctl_env: dict[str, str], tmp_path: Path) -> None:
    """What the shell has opened for the command is open in it, whatever its number."""
    (tmp_path / "input").write_text("through\n")
    command = "bash -c 'cat $0 /dev/fd/3 && cat <&9' <(echo through) 3<input 9<input"
    line = f"PYTHONPATH={Path.cwd()} {sys.executable} -m lock {name} -- {command}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=etcdctl_env, capture_output=True, timeout=WAIT_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"through\n" * 3, b"")


def test_the_command_has_the_terminal(client: Client, name: str, etcdctl_env: dict[str, str]) -> None:
    """It can ask a question, as ssh does, hears that the window has another size, and gets each Ctrl-C once."""
    traps = "trap 'n=x$n; echo got $n' INT; trap 'exit 5' QUIT; trap 'stty size' WINCH"
    script = f"{traps}; read word </dev/tty; echo said $word; while :; do sleep 0.05; done"
    with Terminal([*LOCK, name, "--", "bash", "-c", script], etcdctl_env) as screen:
        screen.type("friend\n")
        assert screen.shows("said friend")
        screen.resize(12, 34)
        assert screen.shows("12 34")
        screen.type("\x03")
        assert screen.shows("got x")
        screen.type("\x1c")
        assert screen.process.wait(WAIT_S) == 5
        assert "xx" not in screen.screen
    assert keys(client, name) == []


@pytest.mark.parametrize(("ttl", "outcome"), [(60, "said on"), (1, "could not be kept alive")])
def test_ctrl_z_suspends_the_job(
    client: Client, name: str, etcdctl_env: dict[str, str], ttl: int, outcome: str
) -> None:
    """It goes on in the foreground while the lease lives; else the command was ended, and that is said."""
    with Terminal(["bash", "--norc", "-i"], etcdctl_env) as screen:
        screen.type(f"{' '.join(LOCK)} --ttl {ttl} {name} -- sh -c 'echo u''p; read word; echo said $word'\n")
        assert screen.shows("\nup")
        keeper = psutil.Process(screen.process.pid)
        command = next(each for each in keeper.children(recursive=True) if each.name() == "sh")
        screen.type("\x1a")
        assert screen.shows("Stopped")
        wait_until(lambda: command.status() == psutil.STATUS_STOPPED)  # until then it reads what is typed
        prompted = "bash-" in screen.screen.rpartition("Stopped")[2]
        assert prompted or screen.shows("bash-", screen.screen.count("bash-") + 1)  # until then it drops what is typed
        if ttl == 1:
            wait_until(lambda: keys(client, name) == [], timeout=WAIT_S)
        screen.type("fg\non\n")
        assert screen.shows(outcome), screen.screen


@pytest.mark.skipif(not shutil.which("ps"), reason="there is no ps")
def test_where_there_is_no_proc_ps_lists_the_processes() -> None:
    """On macOS the children are found as well as on Linux."""
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert (child.pid, os.getpid()) in set(guardian._listed_by_ps())
        child.kill()
