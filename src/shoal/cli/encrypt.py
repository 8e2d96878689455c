"""`shoal encrypt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shoal.cli.options.store import data_dir_option, data_dir_or_default, store_options, store_settings
from shoal.cli.progress import progress


@click.command(name="encrypt")
@click.option("--decrypt", is_flag=True, help="The way back: nothing is encrypted any more.")
@data_dir_option
@store_options
def command(decrypt: bool, data_dir: Path | None, **store: Any) -> None:
    """Writes values anew that are not encrypted with the first key of --encryption-key-file.

    For what was stored before there was a key, and after a key was put in front of the others. Then the old keys can
    go. A server on a SQLite store, or on a local etcd, must be stopped.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.commands.encrypt import encrypt  # noqa: PLC0415

    settings = store_settings(**store)
    if not settings.encryption_key_file:
        raise click.UsageError("--encryption-key-file is missing")
    with progress("encrypting"):
        result = encrypt(data_dir_or_default(data_dir), settings, decrypt=decrypt)
    click.echo(f"{result.rewritten} of {result.checked} values written anew", err=True)
    if result.rewritten and settings.servers:
        click.echo("keep the old keys in the file until the hubs have dropped that history: ten minutes", err=True)
