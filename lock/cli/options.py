"""What the subcommands share: NAME, times, and where etcd is, under the names that etcdctl gives it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from lock.errors import InvalidName
from lock.etcd.client import Client, connect
from lock.etcd.transport import Observer, Tls
from lock.model import printable
from lock.names import queue_prefix


@dataclass(frozen=True, repr=False)  # not to show the password
class Connection:
    """How to reach etcd; `open` may be called more than once."""

    endpoints: str
    cacert: str | None
    cert: str | None
    key: str | None
    user: str | None
    password: str | None

    def open(self, observer: Observer | None = None) -> Client:
        """A client; raises click.UsageError if the options make no sense."""
        if not self.cacert and (self.cert or self.key or "https://" in self.endpoints):
            raise click.UsageError("TLS needs --cacert FILE, the authority that signed etcd's certificate")
        tls = Tls(self.cacert, self.cert, self.key) if self.cacert else None
        try:
            return connect(self.endpoints, tls=tls, user=self.user, password=self.password, observer=observer)
        except (ValueError, OSError) as error:
            raise click.UsageError(str(error)) from error

    def environment(self) -> dict[str, str]:
        """What points etcdctl to the same place; the password is left to its reader."""
        given = {name: value for name, value in vars(self).items() if value and name != "password"}
        return {f"ETCDCTL_{name.upper()}": value for name, value in given.items()}


SECONDS = click.FloatRange(min=0)


def _option(name: str, metavar: str, text: str, **more: Any) -> Callable[..., Any]:
    more.update(envvar=f"ETCDCTL_{name.upper()}", show_envvar=True, metavar=metavar, help=text)
    return click.option(f"--{name}", **more)


_OPTIONS = (
    _option("endpoints", "HOST:PORT,...", "etcd's addresses.", default="127.0.0.1:2379", show_default=True),
    _option("cacert", "FILE", "Authority (TLS)."),
    _option("cert", "FILE", "Own certificate."),
    _option("key", "FILE", "Its private key."),
    _option("user", "NAME[:PASSWORD]", "Asks for the password where it is not given."),
    _option("password", "TEXT", "Of --user."),
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a subcommand the options, and pass it a `Connection` first."""

    @functools.wraps(command)
    def with_connection(user: str | None, password: str | None, **options: Any) -> Any:
        place = {each: options.pop(each) for each in ("endpoints", "cacert", "cert", "key")}
        if user is not None:
            user, _, inline = user.partition(":")
            password = inline or password
            if password is None:
                password = click.prompt(f"Password of {printable(user)}", hide_input=True, err=True)
        return command(Connection(**place, user=user, password=password), **options)

    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), with_connection)


def _valid_name(ctx: click.Context, argument: click.Parameter, name: str) -> str:
    try:
        queue_prefix(name)
    except InvalidName as error:
        raise click.BadParameter(str(error)) from error
    return name


name_argument = click.argument("name", callback=_valid_name)
ttl_option = click.option(
    "--ttl", type=click.IntRange(min=1), default=10, show_default=True, metavar="SECONDS",
    help="When this process dies or is cut off from etcd, its place is free after so long.",
)  # fmt: skip
