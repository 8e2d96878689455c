"""`shoal reset`: removes a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import click

from shoal.assemble.commands.reset import DataDirContents, inspect_data_dir, remove_data_dir
from shoal.assemble.storage.datadir import default_data_dir
from shoal.cli.options.hub import CommandError
from shoal.cli.progress import progress


@click.command(name="reset")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory to remove. [$SHOAL_DATA_DIR]")
@click.option("--yes", is_flag=True, help="Remove it; without this flag, only print its contents.")
def command(data_dir: Path | None, yes: bool) -> None:
    """Removes a data directory: the hub's store and keys, and those of the workers in it. This cannot be undone.

    Does not stop running processes: fails if the directory is in use.
    """
    path = data_dir or default_data_dir(os.environ)
    contents = inspect_data_dir(path)
    if not yes:
        raise CommandError(f"{describe(contents)} would be removed permanently", f"shoal reset --data-dir {path} --yes")
    with progress(f"removing {path}"):
        remove_data_dir(path)
    click.echo(f"removed {describe(contents)}", err=True)


def describe(contents: DataDirContents) -> str:
    size = f"{contents.size / (1 << 20):.1f} MB"
    workers = f", with the workers {', '.join(contents.workers)}" if contents.workers else ""
    return f"{contents.path} ({size}{workers})"
