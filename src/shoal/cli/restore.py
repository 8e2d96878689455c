"""`shoal restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.options.store import data_dir_option, data_dir_or_default, store_options, store_settings
from shoal.cli.progress import progress

if TYPE_CHECKING:
    from shoal.assemble.commands.restore import RestoreResult


@click.command(name="restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--force-replace", is_flag=True, help="If a store exists already, move it aside first.")
@data_dir_option
@store_options
def command(file: Path, force_replace: bool, data_dir: Path | None, **store: Any) -> None:
    """Creates a store from a backup, in the data directory or in etcd, independent of the store the backup came from.

    Stop the servers of the store first. Existing watches end with 410 Gone and must relist.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.commands.restore import RestoreOptions, restore  # noqa: PLC0415

    settings = store_settings(**store)
    where = None if settings.servers and data_dir is None else data_dir_or_default(data_dir)
    with progress("restoring"):
        result = restore(RestoreOptions(file, where, settings, force_replace))
    for line in summary_lines(result):
        click.echo(line, err=True)


def summary_lines(result: RestoreResult) -> list[str]:
    header = result.header
    lines = [
        f"restored {result.records} records of {header.store} at revision {header.revision}, of {header.time}",
        f"the new store is {result.store_id}, at revision {result.revision}; watches of the old store must relist",
    ]
    if result.replaced_location:
        lines.append(f"the previous store was moved to {result.replaced_location}")
    if result.restored_keys:
        lines.append("keys were restored: kubeconfigs and tokens of the old server remain valid")
    return lines
