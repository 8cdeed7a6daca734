"""The process that runs the command, and ends it with everything it has started when the keeper of the lock ends.

A SIGKILL cannot be caught, so it takes a second process to outlive the keeper. This file is its program; it needs the
standard library alone, and nothing of this package. It talks with the keeper (`lock.cli.child`) over a socket, in
lines of JSON: first the request to run the command, then signals to pass on and when the lease ends, by a clock that
both read: what was sent before a pause is not misread after it.

The command stays in the session and process group of the keeper, as if the shell itself ran it: it has the terminal,
and Ctrl-C, Ctrl-Z and a resized window reach it from the kernel. Descriptors are inherited. Only the guardian leaves
the session, once it has started the command: no signal to the job reaches it.

On Linux orphaned descendants become children of the guardian (``PR_SET_CHILD_SUBREAPER``), so the tree below it is
complete, whatever groups, sessions and environments the processes have. Elsewhere a process whose parent has ended is
not found. Processes of another user (``sudo``) and those that a service starts (``docker run``) are not ended.

Error handling: it ends the command when the keeper closes the socket or dies. A keeper that is silent may be stopped:
then it begins the grace before the lease's end, and kills what is left at that end, when another process may hold; a
keeper that runs again hears of it. If the guardian itself is killed, the keeper ends the command.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # for the command and its children
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)  # for the command alone: its children would die of them
SIGNALS = (*ENDING, *PASSED_ON, signal.SIGTSTP)
_SIGNALS_OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # which the interpreter ignores, and the command should not
_POLL_S = 0.02
_SILENCE_S = 1.0  # a keeper that runs speaks ten times as often
_KILL_S = 5.0  # for processes that the kernel does not let go
_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(control: socket.socket) -> None:
    """Run what the keeper orders, and end it with the keeper."""
    control.set_inheritable(False)
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # what is ignored (nohup) the command ignores as well
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    adopt_orphans()
    messages = control.makefile("r")
    request = messages.readline()
    if not request:  # the keeper did not get the lock
        return
    command, environment, grace, clock, until = json.loads(request)
    try:
        pid = os.posix_spawnp(command[0], command, {**os.environ, **environment}, setsigdef=_SIGNALS_OF_PYTHON)
    except OSError as error:
        _tell(control, "failed", error.errno or 0)
        return
    os.setsid()
    _close_all_but(control.fileno())
    ended = threading.Event()
    threading.Thread(target=_reap, args=(pid, control, ended), daemon=True).start()
    until = _follow(messages, control, pid, grace, clock, until)
    if not ended.is_set():
        _tell(control, "ending", 0)  # before the command's own end, which would look as if it had ended by itself
        end_descendants(min(grace, max(until - time.clock_gettime(clock), 0.0)))


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, if the system has that (Linux 3.4)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(grace: float) -> None:
    """SIGTERM to all processes below this one, and after `grace` seconds SIGKILL, until none is left."""
    until = time.monotonic() + grace
    signal_descendants(signal.SIGTERM)
    signal_descendants(signal.SIGCONT)  # one that is stopped would not hear the other
    while signal_descendants(0) and time.monotonic() < until:
        time.sleep(_POLL_S)
    until = time.monotonic() + _KILL_S
    # Twice: one whose parent ends while the processes are listed is missing from that list.
    while any(signal_descendants(signal.SIGKILL) for _ in range(2)) and time.monotonic() < until:
        time.sleep(_POLL_S)


def signal_descendants(number: int, *, only: int | None = None) -> bool:
    """Send a signal to all processes below this one, or to one; whether there was one that may be sent it."""
    reached = False
    for pid in [each for each in _descendants() if only in (None, each)]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            reached = True
    return reached


def _follow(messages: Iterator[str], control: socket.socket, pid: int, grace: float, clock: int, until: float) -> float:
    """Do what the keeper says, until it is time to end the command; when its lease ends, as it has said last."""

    def wait() -> None:
        left = until - time.clock_gettime(clock)
        control.settimeout(max(min(left, max(left - grace, _SILENCE_S)), _POLL_S))

    wait()
    with contextlib.suppress(OSError):  # TimeoutError: the keeper is stopped
        for line in messages:
            what, value = json.loads(line)
            if what == "signal":
                signal_descendants(value, only=pid if value in PASSED_ON else None)
            else:
                until = value
            wait()
    return until


def _reap(pid: int, control: socket.socket, ended: threading.Event) -> None:
    with contextlib.suppress(ChildProcessError):  # there is none any more
        while True:
            child, status = os.wait()
            if child == pid:
                ended.set()
                _tell(control, "ended", os.waitstatus_to_exitcode(status))


def _tell(control: socket.socket, what: str, value: int) -> None:
    with contextlib.suppress(OSError):  # the keeper has been killed
        control.sendall(f"{json.dumps([what, value])}\n".encode())


def _close_all_but(descriptor: int) -> None:
    """Keep no pipe open that the command would like to see closed."""
    for number in [int(path.name) for path in Path("/dev/fd").iterdir()]:  # the limit may be 10**9, too many to try
        if number > 2 and number != descriptor:
            with contextlib.suppress(OSError):  # it was the list's own
                os.close(number)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)


def _descendants() -> list[int]:
    children = defaultdict[int, list[int]](list)
    for pid, parent in _processes():
        children[parent].append(pid)
    descendants = children[os.getpid()]
    for pid in descendants:  # which grows while it is walked
        descendants += children[pid]
    return descendants


def _processes() -> Iterator[tuple[int, int]]:
    """The id of each living process, and its parent's."""
    if sys.platform != "linux":
        yield from _listed_by_ps()
        return
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, parent = path.read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                yield int(path.parent.name), int(parent)


def _listed_by_ps() -> Iterator[tuple[int, int]]:
    for line in subprocess.check_output(["ps", "-A", "-o", "pid=,ppid=,stat="], text=True).splitlines():
        pid, parent, state = line.split()
        if "Z" not in state:
            yield int(pid), int(parent)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
