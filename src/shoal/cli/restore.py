"""`shoal restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.progress import progress
from shoal.cli.storing import data_dir_option, data_dir_or_default, store_options, store_settings

if TYPE_CHECKING:
    from shoal.assemble.restore import Restored


@click.command(name="restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--force-replace", is_flag=True, help="Where a store is already: moves it aside, then restores.")
@data_dir_option
@store_options
def command(file: Path, force_replace: bool, data_dir: Path | None, **store: Any) -> None:
    """Makes a store of a backup, in the data directory or in etcd, wherever the backup came from.

    Stop the servers of the store first. Watches from before are told to list anew.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.restore import RestoreAsked, restore  # noqa: PLC0415

    settings = store_settings(**store)
    where = None if settings.servers and data_dir is None else data_dir_or_default(data_dir)
    with progress("restoring"):
        done = restore(RestoreAsked(file, where, settings, force_replace))
    for line in told(done):
        click.echo(line, err=True)


def told(done: Restored) -> list[str]:
    header = done.header
    lines = [
        f"restored {done.records} records of {header.store} at revision {header.revision}, of {header.time}",
        f"the new store is {done.store}, at revision {done.revision}; whoever watched the old one lists anew",
    ]
    if done.aside:
        lines.append(f"what was there before is kept in {done.aside}")
    if done.keys:
        lines.append("the keys came with it: kubeconfigs and tokens of the old server stay good")
    return lines
