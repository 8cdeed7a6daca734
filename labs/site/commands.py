"""`site`: pages that play what was recorded, without a server, and the documents beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import console

ROOT = Path(__file__).parents[2]
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--output", type=_FOLDER, default=Path("site"), show_default=True, help="Folder of the site.")
@click.option("--recordings", type=_FOLDER, help="Keep them here; what is there already is not recorded again.")
def site(output: Path, recordings: Path | None) -> None:
    """Record rushes, the pause of a holder and every schedule, and make pages of them that need no server.

    OUTPUT/index.html opens from a disk and from any web server, under any path.
    """
    from labs.site.pages import Site
    from labs.site.recordings import CannotRecord, record

    screen = console()
    with ExitStack() as stack:
        folder = recordings or stack.enter_context(scratch_directory())
        try:
            record(folder, lambda name: screen.print(f"Recording {name} ...", markup=False))
        except (CannotRecord, ServerError) as error:
            raise click.ClickException(str(error)) from error
        pages = Site(folder).pages()
    output.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (output / name).write_text(text, encoding="utf-8")
        screen.print(f"{output / name}: {len(text.encode()) // 1024} KB", markup=False, soft_wrap=True)
    _build_documents(output / "docs")
    screen.print(f"Open {output / 'index.html'}", markup=False, soft_wrap=True)


def _build_documents(folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder.resolve())]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    if done.returncode:
        raise click.ClickException("the documents were not built: see above")
