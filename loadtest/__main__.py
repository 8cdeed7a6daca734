"""The command: python -m loadtest COMMAND."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as a shell has it


def main() -> None:
    """Run a command; Ctrl-C is one line and an exit code, also while the commands are still being imported."""
    try:
        from loadtest.cli.main import run

        run()
    except KeyboardInterrupt:
        print("Interrupted: everything is stopped.", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
