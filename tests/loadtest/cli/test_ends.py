"""How commands end: by themselves, interrupted, killed, or with nothing left to print to; and what is left then."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path

import psutil
import pytest

from loadtest.__main__ import main
from loadtest.ports import is_occupied
from loadtest.shop_client.shops import in_progress
from tests.support.commands import Command, finished, running
from tests.support.waiting import has_ended, wait_until

pytestmark = pytest.mark.timeout(240)  # the patience of its waits comes before

DEMO = (["demo", "--hold-ms=20"], "none ")  # in the middle of the rush
UP = (["up", "--free-ports"], "Buy one item")
# While etcd, Redis and shops are started; while all is well; while the holder is frozen; when it goes on.
FAULTS = [
    (["faults", "pause-holder", "--guard=etcd"], moment)
    for moment in ("pause-holder:", "holds the lock", "is frozen", "is thawed")
]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
INTERRUPTED = (130, [r"\nInterrupted: everything is stopped\.\n\Z"])
# Exit code after an interrupt, and what was printed: log lines carry the name of their process.
ENDS = {
    "demo": INTERRUPTED,
    "faults": INTERRUPTED,
    "up": (0, [r"^etcd +\| ready on port \d+$", r"^(instance-\d+) +\| .*Listening at", "Shutting down: Master"]),
}


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (DEMO, signal.SIGINT),
        *((command, signal.SIGKILL) for command in FAULTS[2:3]),
        *(pytest.param(moment, number, marks=pytest.mark.slow) for moment in (DEMO, UP, *FAULTS) for number in SIGNALS),
    ],
)
def test_nothing_is_left_whenever_and_however_it_ends(
    tmp_path: Path, command: tuple[list[str], str], number: signal.Signals
) -> None:
    """Ctrl-C, SIGTERM or kill -9 at any moment: no process, frozen or not, no directory and no report is left."""
    words, moment = command
    with leaving_nothing(tmp_path, *words, until=moment) as ended:
        children = ended.children()
        if moment == "is frozen":
            wait_until(lambda: any(child.status() == psutil.STATUS_STOPPED for child in children))
        code = ended.end(number)
    assert not (tmp_path / "reports/latest").exists()
    if number != signal.SIGKILL:
        assert_ended_well(ended, words[0], code)
        assert list(tmp_path.glob("reports/*")) == []


@contextmanager
def leaving_nothing(directory: Path, *words: str, until: str) -> Iterator[Command]:
    """A command that has printed `until`; none of its processes and directories is left at the end."""
    with running(directory, *words, until=until) as command:
        wait_until(lambda: directories_of(command.children()), timeout=30)
        children = command.children()
        directories = directories_of(children)
        yield command
    wait_until(lambda: all(map(has_ended, children)), timeout=30)
    wait_until(lambda: not any(directory.exists() for directory in directories), timeout=30)
    assert not any(map(users_of, directories))


def assert_ended_well(ended: Command, name: str, code: int) -> None:
    """This command has the exit code that it should have, and has printed its last lines."""
    expected, patterns = ENDS[name]
    assert code == expected, ended.printed
    assert all(re.search(pattern, ended.printed, re.MULTILINE) for pattern in patterns), ended.printed
    assert "\x1b" not in ended.printed


def think(url: str) -> None:
    """Buy one item, and think about it for a minute."""
    with suppress(OSError):
        urllib.request.urlopen(urllib.request.Request(f"{url}/stock/reduce?hold_ms=60000", method="POST"))


def test_a_second_interrupt_kills(tmp_path: Path) -> None:
    """It does not wait for the shops, which would finish their purchases for some seconds, and nothing is left."""
    with leaving_nothing(tmp_path, *UP[0], until=UP[1]) as up:
        busy, idle = re.findall(r"http://127.0.0.1:\d+", up.printed.partition("Shops: ")[2])[:2]
        threading.Thread(target=think, args=(busy,), daemon=True).start()
        wait_until(lambda: in_progress(busy))
        up.process.send_signal(signal.SIGINT)
        wait_until(lambda: not is_occupied(int(idle.rpartition(":")[2])))  # so the other one is being waited for
        assert up.end(signal.SIGINT) == 130  # after the first one alone it is 0


def test_up_says_what_to_do_when_a_server_has_ended(tmp_path: Path) -> None:
    """The rest runs on until SIGTERM, and the line with the exit code tells how to get it back."""
    with leaving_nothing(tmp_path, *UP[0], until=UP[1]) as up:
        ports = dict(re.findall(r"^([a-z]+)\S* +\| ready on port (\d+)$", up.printed, re.MULTILINE))
        leaders = [child for child in up.children() if os.getpgid(child.pid) == child.pid]
        serving = {line.laddr.port: leader for leader in leaders for line in leader.net_connections()}
        for server, advice in (("redis", "Ctrl-C, and start again"), ("instance", "the board can start it again")):
            serving[int(ports[server])].kill()
            up.read_until(advice)
            assert re.search(rf"^{server}\S* +\| ended with code -9: {advice}$", up.printed, re.MULTILINE)
        code = up.end(signal.SIGTERM)
    assert_ended_well(up, "up", code)


def test_up_names_an_occupied_port(tmp_path: Path) -> None:
    """One line says which port is occupied, and how to choose others; nothing was started."""
    with ExitStack() as port:
        with suppress(OSError):  # another program has it
            port.enter_context(socket.create_server(("127.0.0.1", 8090)))
        done = finished(tmp_path, "up")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r".*already in use: .*port 8090 \(instance-8090\).*Choose others: .*-ports\n", done.stderr)


def test_an_interrupt_at_the_very_beginning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the commands are still being imported has the same words and the same code as later."""

    class Interrupted(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == "loadtest.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "loadtest.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted: everything is stopped.\n"


def directories_of(processes: list[psutil.Process]) -> set[Path]:
    """The scratch directories that these processes were told to use."""
    words = []
    for process in processes:
        with suppress(psutil.Error):  # it has ended just now
            words += process.cmdline()
    return {Path(name) for name in re.findall(r"(/\S*?stock-flash-sale-\w+)/", " ".join(words))}


def users_of(directory: Path) -> list[psutil.Process]:
    """The processes that were told of this directory, on the command line or in the environment, the last one too."""
    return [process for process in psutil.process_iter() if str(directory) in _told(process)]


def _told(process: psutil.Process) -> str:
    try:
        return " ".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:  # it has ended, or belongs to another user
        return ""
