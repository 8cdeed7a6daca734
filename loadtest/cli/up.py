"""`up`: the stack in the foreground, as `docker compose up` shows it, without Docker."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from app.contract import labs
from loadtest.cli.options import no_pin
from loadtest.stack.apps import Instance
from loadtest.stack.process import ManagedProcess, scratch_directory
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack, usage_hints

_POLL_S = 0.1
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


@click.command()
@no_pin
@click.option("--free-ports", is_flag=True, help="Take any free ports instead of the usual six.")
def up(free_ports: bool, **of_labs: Any) -> None:
    """Run the sale with board and Locust's page, until Ctrl-C.

    Data lives in a temporary directory that is removed at the end. FLASHSALE_* variables reach the shops; the lease
    is 4 s unless FLASHSALE_LEASE_TTL says otherwise.
    """
    with scratch_directory() as directory:
        stack = Stack.interactive(directory, ports="free" if free_ports else "default")
        for lab in labs.modules("up"):
            lab.init_stack(stack, {"free_ports": free_ports, **of_labs})
        logs = Logs(stack.processes)
        try:
            stack.start(on_ready=logs.ready)
            logs.skip_old()
            click.echo("\nThe sale is open. Ctrl-C stops everything.")
            for name, place in usage_hints(stack).items():
                click.echo(f"{name}: {place}")
            click.echo()
            logs.follow()
        except KeyboardInterrupt:
            click.echo("\nStopping; Ctrl-C again to kill.")
        finally:
            stack.stop()
            logs.show_new()


up.params += [option for lab in labs.modules("up") for option in lab.OPTIONS]


class Logs:
    """The log files of several processes as one stream, each line after the name of its process."""

    def __init__(self, processes: list[ManagedProcess]) -> None:
        self._processes = processes
        self._shown = dict.fromkeys(processes, 0)  # bytes of its log
        self._ended: set[ManagedProcess] = set()
        self._width = max(len(process.name) for process in processes)

    def ready(self, process: ManagedProcess) -> None:
        """Show that `process` is ready; what it logs as it starts is shown only if the start fails."""
        self.say(process, f"ready on port {process.port}")

    def skip_old(self) -> None:
        for process in self._processes:
            if process.log.exists():
                self._shown[process] = process.log.stat().st_size

    def follow(self) -> None:
        while len(self._ended) < len(self._processes):
            self.show_new()
            for process in self._processes:
                if process.running:
                    self._ended.discard(process)  # started again from the board
                elif process not in self._ended:
                    self._ended.add(process)
                    is_startable = isinstance(process, Instance | Etcd)
                    advice = "the board can start it again" if is_startable else "Ctrl-C, and start again"
                    cause = f" ({process.reason()})" if (process.returncode or 0) > 0 else ""  # or else: by a signal
                    self.say(process, f"ended with code {process.returncode}{cause}: {advice}")
            time.sleep(_POLL_S)

    def show_new(self) -> None:
        """Show the whole lines logged since the last call."""
        for process in self._processes:
            if not process.log.exists():
                continue
            with process.log.open("rb") as log:
                log.seek(self._shown[process])
                whole = log.read().rpartition(b"\n")[0]
            if whole:
                self._shown[process] += len(whole) + 1
                for line in whole.decode(errors="replace").split("\n"):
                    self.say(process, line)

    def say(self, process: ManagedProcess, line: str) -> None:
        colour = _COLOURS[self._processes.index(process) % len(_COLOURS)]
        prefix = click.style(f"{process.name:{self._width}} |", fg=colour)
        click.echo(f"{prefix} {line}", color=False if os.environ.get("NO_COLOR") else None)
