"""``python -m lock``, installed as ``etcd-lock``: hold a lock from the shell; see `lock.cli`."""

import logging
import sys
from typing import Any

import click

from lock.cli.exit_codes import code_of
from lock.cli.hold import hold
from lock.cli.output import Warnings, say
from lock.cli.queues import break_lock, contenders, list_locks
from lock.cli.trace import trace
from lock.errors import LockError
from lock.model import printable


class _NameOrCommand(click.Group):
    """Takes ``NAME ...`` for ``hold NAME ...``, also if NAME is a subcommand's and ``--`` follows.

    Options may stand in front of either: they are the subcommand's.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options, words = self._split(args)
        if words and words[0] in self.commands and words[1:2] != ["--"] and "--" not in options:
            args = [words[0], *options, *words[1:]]
        elif args and args != ["--help"]:
            args = ["hold", *args]
        return super().parse_args(ctx, args)

    def _split(self, args: list[str]) -> tuple[list[str], list[str]]:
        """The options in front, of any subcommand and with their values, and what follows from the first word on."""
        params = [each for command in self.commands.values() for each in command.params]
        options = {each.name: each for each in params if isinstance(each, click.Option)}
        reader = click.Command(None, params=[*options.values()])
        rest = reader.make_context(None, [*args], resilient_parsing=True, allow_interspersed_args=False).args
        return args[: len(args) - len(rest)], rest

    def invoke(self, ctx: click.Context) -> Any:
        """Tell each error on one line; those of the library have exit codes."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise click.UsageError(printable(error.format_message()), error.ctx) from error
        except LockError as error:
            say(str(error))
            sys.exit(code_of(error))

    def get_help(self, ctx: click.Context) -> str:
        """The help, which names the command as it was called."""
        return super().get_help(ctx).replace("etcd-lock", ctx.command_path)


@click.group(
    cls=_NameOrCommand,
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    subcommand_metavar="NAME [-- COMMAND [ARG ...]]  |  SUBCOMMAND ...",
    commands=[hold, list_locks, contenders, break_lock, trace],
    no_args_is_help=True,
)
def main() -> None:
    """A fair, fenced lock on etcd, for the shell.

    \b
    etcd-lock NAME                  hold NAME until Ctrl-C; print its key and token
    etcd-lock NAME -- COMMAND ...   run COMMAND while NAME is held
    etcd-lock list [PREFIX]         show all locks, with their holders
    etcd-lock contenders NAME       show holder and waiters of NAME
    etcd-lock break NAME            take NAME away from its holder
    etcd-lock trace NAME            one lock cycle, operation by operation

    It waits in the same queue as `etcdctl lock NAME` and Go's concurrency.Mutex: first come, first served. A lock can
    be lost while COMMAND runs. Then COMMAND and its children are ended; but what it has sent may still arrive, so let
    whatever it writes to refuse a LOCK_TOKEN lower than the highest it has seen. When COMMAND ends by itself, the lock
    is free, and children that it leaves in the background run on.

    A key, name or value that cannot be printed on one line is printed as a Python literal.

    \b
    Examples
      etcd-lock deploy/shop -- ./deploy.sh         one deployment at a time
      etcd-lock --try nightly -- ./report.sh       only if it does not run yet
      etcd-lock --timeout 30 deploy/shop -- make   give up after half a minute
      etcd-lock --shared deploy/shop -- ./test.sh  together with others that share, but not with a deployment
      etcd-lock --limit 3 builds -- make           at most three at a time
      etcd-lock hold trace                         a lock that is called like a subcommand
      etcd-lock trace demo | tee cycle.sh          what it prints is a script for etcdctl

    \b
    Exit codes
      of COMMAND, or 128+N if signal N ended it or ended the wait; else
        0  held, and given back at a signal       75  not acquired (--timeout, --try)
        2  wrong usage                            76  the lock was lost
       69  etcd is out of reach                   77  etcd does not let this user in
      126  COMMAND cannot be run                 127  COMMAND is not found
       70  etcd refused, another --limit is in use, or the process that guards COMMAND was killed
    """  # noqa: D301  (click's mark for a paragraph that is not to be wrapped is a real backspace)
    logging.basicConfig(handlers=[Warnings()])


if __name__ == "__main__":
    main()
