"""`up --room`: the room's server beside the stack, at this computer's network address. Nothing else leaves loopback."""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import psutil

from app.config.environment import is_loopback
from labs.room.settings import RoomSettings
from loadtest import REPOSITORY
from loadtest.ports import free_port
from loadtest.stack import reaper
from loadtest.stack.apps import App
from loadtest.stack.stack import Stack

PORT = 8060
ELSEWHERE = ("192.0.2.1", 9)  # an address that exists nowhere; nothing is sent to it
PIN_DIGITS = 6

OPTIONS = [
    click.Option(["--room"], is_flag=True, help="Let phones buy over this computer's network address."),
    click.Option(["--address"], metavar="IP", help="Of the room, instead of the one that is found."),
    click.Option(["--room-pin"], is_flag=True, help="Phones need a PIN, which the board shows."),
]


def init_stack(stack: Stack, options: Mapping[str, Any]) -> None:
    """Add the room to the stack if it is asked for."""
    if not options["room"]:
        if options["address"] or options["room_pin"]:
            raise click.UsageError("--address and --room-pin belong to --room: add it.")
        return
    address = checked_address(options["address"]) if options["address"] else own_address()
    pin = "".join(secrets.choice("0123456789") for _ in range(PIN_DIGITS)) if options["room_pin"] else None
    add_room(stack, address, port=0 if options["free_ports"] else PORT, pin=pin)


def add_room(stack: Stack, address: str, *, port: int = 0, pin: str | None = None) -> RoomServer:
    """Add the room's server to a stack with a board that is not started yet; port 0 means a free one."""
    room = RoomServer(stack.section_log.parent, address, port, instances=tuple(stack.urls), pin=pin)
    assert stack.board is not None
    stack.board.env.update(room.settings.environment())
    stack.pages.append(room)
    stack.processes.append(room)
    return room


class RoomServer(App):
    """The server of the buyers' page. Phones reach its network address, and the board a socket file of this user."""

    def __init__(
        self, directory: Path, address: str, port: int, *, instances: tuple[str, ...], pin: str | None
    ) -> None:
        port = port or free_port()
        self._private = Path(tempfile.mkdtemp(prefix="flashsale-"))  # a socket's path must be short
        reaper.watch("directory", self._private)
        host = f"[{address}]" if ":" in address else address
        self.settings = RoomSettings(
            url=f"http://{host}:{port}", stage=self._private / "stage", pin=pin, instances=instances
        )
        super().__init__("room", directory, port, self.settings.environment())

    @property
    def url(self) -> str:
        return self.settings.url

    def environment(self) -> Mapping[str, str]:
        """The environment without the shop's settings: secrets have no place in a process that a network reaches."""
        return {**{name: value for name, value in os.environ.items() if not name.startswith("FLASHSALE_")}, **self.env}

    def command(self) -> list[str]:
        config = REPOSITORY / "labs/room/gunicorn.conf.py"
        return [sys.executable, "-m", "gunicorn", "-c", str(config), "labs.room.server:create_room()"]

    def wait_ended(self) -> None:
        super().wait_ended()
        shutil.rmtree(self._private, ignore_errors=True)


def checked_address(text: str) -> str:
    """An IP address that the room can reach; raises click.UsageError."""
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        raise click.UsageError(
            f"--address is {text!a}: give an IP address of this computer, such as 192.168.1.20."
        ) from None
    if address.is_unspecified:
        raise click.UsageError(f"--address is {text!a}: give the one address that phones are to open.")
    return str(address)


def own_address() -> str:
    """This computer's address in its network; raises click.ClickException if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)  # the address from which the system would send
            found = str(probe.getsockname()[0])
        except OSError:
            found = ""
    for each in [found, *_interface_addresses()]:
        if each and not is_loopback(each):
            return each
    raise click.ClickException("This computer is in no network that phones could reach: join one, or give --address.")


def _interface_addresses() -> list[str]:
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    listed = [each for name, addresses in psutil.net_if_addrs().items() if name in up for each in addresses]
    return [str(each.address) for each in listed if each.family == socket.AF_INET]
