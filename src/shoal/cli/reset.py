"""`shoal reset`: removes a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import click

from shoal.assemble.datadir import default_data_dir
from shoal.assemble.reset import Content, content, remove
from shoal.cli.asking import AskingError
from shoal.cli.progress import progress


@click.command(name="reset")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The one to remove. [$SHOAL_DATA_DIR]")
@click.option("--yes", is_flag=True, help="Removes it; without, it is only said what there is.")
def command(data_dir: Path | None, yes: bool) -> None:
    """Removes a data directory: the hub's store and keys, and those of the workers in it. There is no way back.

    Nothing that runs is stopped: a directory in use is refused.
    """
    path = data_dir or default_data_dir(os.environ)
    found = content(path)
    if not yes:
        raise AskingError(f"{said(found)} would be removed for good", f"shoal reset --data-dir {path} --yes")
    with progress(f"removing {path}"):
        remove(path)
    click.echo(f"removed {said(found)}", err=True)


def said(found: Content) -> str:
    size = f"{found.size / (1 << 20):.1f} MB"
    workers = f", with the workers {', '.join(found.workers)}" if found.workers else ""
    return f"{found.path} ({size}{workers})"
