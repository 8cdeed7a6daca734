"""What the subcommands share: NAME, times, and where etcd is, under the names that etcdctl gives it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from lock.cli.exit_codes import errors_as_exit_codes
from lock.errors import InvalidName
from lock.etcd.client import Client, connect
from lock.etcd.transport import Observer, Tls
from lock.queue.names import queue_prefix


@dataclass(frozen=True, repr=False)  # not to show the password
class Connection:
    """How to reach etcd; `open` may be called more than once."""

    endpoints: str
    tls: Tls | None
    user: str | None
    password: str | None

    def open(self, observer: Observer | None = None) -> Client:
        """A client; raises click.UsageError where the options make no sense."""
        try:
            return connect(self.endpoints, tls=self.tls, user=self.user, password=self.password, observer=observer)
        except (ValueError, OSError) as error:
            raise click.UsageError(str(error)) from error

    def environment(self) -> dict[str, str]:
        """What points etcdctl to the same place; the password is left to its reader."""
        ca_cert, cert, key = (self.tls.ca_cert, self.tls.cert, self.tls.key) if self.tls else (None, None, None)
        variables = {"ENDPOINTS": self.endpoints, "CACERT": ca_cert, "CERT": cert, "KEY": key, "USER": self.user}
        return {f"ETCDCTL_{name}": value for name, value in variables.items() if value}


class _Seconds(click.FloatRange):
    """Seconds, 0 or more; without this, click would take `nan` for a number in the range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        return seconds if seconds >= 0 else self.fail(f"{value!r} is not a number.", param, ctx)


SECONDS = _Seconds(min=0)
_OPTIONS = (
    click.option(
        "--endpoints", envvar="ETCDCTL_ENDPOINTS", default="127.0.0.1:2379", show_default=True, show_envvar=True,
        metavar="HOST:PORT,...", help="etcd's addresses.",
    ),
    click.option("--cacert", envvar="ETCDCTL_CACERT", show_envvar=True, metavar="FILE", help="Authority (TLS)."),
    click.option("--cert", envvar="ETCDCTL_CERT", show_envvar=True, metavar="FILE", help="Own certificate."),
    click.option("--key", envvar="ETCDCTL_KEY", show_envvar=True, metavar="FILE", help="Its private key."),
    click.option(
        "--user", envvar="ETCDCTL_USER", show_envvar=True, metavar="NAME[:PASSWORD]",
        help="Asks for the password where it is not given.",
    ),
    click.option("--password", envvar="ETCDCTL_PASSWORD", show_envvar=True, metavar="TEXT", help="Of --user."),
)  # fmt: skip


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a subcommand the options, pass it a `Connection` first, and turn the errors of `lock` into exit codes."""

    @functools.wraps(command)
    def with_connection(endpoints: str, user: str | None, password: str | None, **options: Any) -> Any:
        files = [options.pop(name) for name in ("cacert", "cert", "key")]
        name, secret = _login(user, password)
        with errors_as_exit_codes():
            return command(Connection(endpoints, _tls(endpoints, *files), name, secret), **options)

    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), with_connection)


def _tls(endpoints: str, cacert: str | None, cert: str | None, key: str | None) -> Tls | None:
    if cacert:
        return Tls(cacert, cert, key)
    if cert or key or "https://" in endpoints:
        raise click.UsageError("TLS needs --cacert FILE, the authority that signed etcd's certificate")
    return None


def _login(user: str | None, password: str | None) -> tuple[str | None, str | None]:
    if user is None:
        return None, password
    name, _, inline = user.partition(":")
    secret = inline or password
    return name, secret if secret is not None else click.prompt(f"Password of {name}", hide_input=True, err=True)


def _valid_name(ctx: click.Context, argument: click.Parameter, name: str) -> str:
    try:
        queue_prefix(name)
    except InvalidName as error:
        raise click.BadParameter(str(error)) from error
    return name


name_argument = click.argument("name", callback=_valid_name)
