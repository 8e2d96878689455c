"""`shoal rotate-ca`."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options.store import data_dir_option, data_dir_or_default


@click.command(name="rotate-ca")
@click.option("--finish", is_flag=True, required=True, help="Stop using the former certificate authority.")
@data_dir_option
def command(finish: bool, data_dir: Path | None) -> None:
    """Ends the replacement of the server's certificate authority that an upgrade has begun.

    Until then the server presents a certificate of the former authority to clients that know no other. Afterwards
    kubeconfigs from before the upgrade are refused, and so are client certificates of the former authority.
    """
    # Help does not need the server.
    from shoal.assemble.commands.rotate_ca import finish as finish_rotation  # noqa: PLC0415

    removed = finish_rotation(data_dir_or_default(data_dir))
    click.echo(f"removed {' and '.join(removed)}" if removed else "there is no former certificate authority", err=True)
