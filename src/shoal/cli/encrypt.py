"""`shoal encrypt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shoal.cli.options.store import data_dir_option, data_dir_or_default, store_options, store_settings
from shoal.cli.progress import progress


@click.command(name="encrypt")
@click.option("--decrypt", is_flag=True, help="Decrypt all values.")
@data_dir_option
@store_options
def command(decrypt: bool, data_dir: Path | None, **store: Any) -> None:
    """Rewrites all values that are not encrypted with the first key of --encryption-key-file.

    Use it for values that were stored before encryption was enabled, and after a new key was added in front of the
    others; the old keys can then be removed. A server on a SQLite store, or on a local etcd, must be stopped.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.commands.encrypt import encrypt  # noqa: PLC0415

    settings = store_settings(**store)
    if not settings.encryption_key_file:
        raise click.UsageError("--encryption-key-file is required")
    with progress("encrypting"):
        result = encrypt(data_dir_or_default(data_dir), settings, decrypt=decrypt)
    click.echo(f"{result.rewritten} of {result.checked} values rewritten", err=True)
    if result.rewritten and settings.servers:
        click.echo(
            "keep the old keys in the file for ten minutes, until the hubs have compacted the old revisions", err=True
        )
