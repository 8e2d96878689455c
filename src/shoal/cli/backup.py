"""`shoal backup`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.options.hub import translate_hub_errors
from shoal.cli.options.store import data_dir_option, data_dir_or_default, store_options, store_settings
from shoal.cli.progress import progress

if TYPE_CHECKING:
    from shoal.assemble.commands.backup import BackupResult


@click.command(name="backup")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--revision", type=click.IntRange(1), help="Earlier revision, as far back as the history goes. [the newest]"
)
@click.option(
    "--with-keys", is_flag=True, help="Include the certificate authority, the service account key and the admin token."
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of a running server, which sends the backup."
)
@data_dir_option
@store_options
def command(
    file: Path, revision: int | None, with_keys: bool, kubeconfig: Path | None, data_dir: Path | None, **store: Any
) -> None:
    """Writes a consistent snapshot of a store to FILE. A server may be running.

    The file contains all Secrets, encrypted as in the store. shoal restore creates a store from it.
    """
    if kubeconfig is not None and (data_dir is not None or store.get("etcd_servers")):
        raise click.UsageError("--kubeconfig cannot be used with --data-dir or --etcd-servers")
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.commands.backup import BackupOptions, backup  # noqa: PLC0415

    options = BackupOptions(
        file, data_dir_or_default(data_dir), store_settings(**store), kubeconfig, revision or 0, with_keys
    )
    with progress("reading the store"), translate_hub_errors(kubeconfig):
        result = backup(options)
    click.echo(summary_line(file, result), err=True)
    if with_keys:
        click.echo(
            f"warning: {file} contains the private keys of the server; protect it like a private key",
            err=True,
        )


def summary_line(file: Path, result: BackupResult) -> str:
    header = result.header
    past = f" (the newest is {header.newest})" if header.newest != header.revision else ""
    what = f"{result.records} records of the {header.kind} store {header.store} at revision {header.revision}{past}"
    return f"{file}: {what}, {result.size} bytes"
