"""`shoal kubeconfig`: the admin's."""

from __future__ import annotations

import os
from pathlib import Path

import click

from shoal.assemble.datadir import DataDirError, default_data_dir


@click.command(name="kubeconfig")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where Shoal keeps its data. [$SHOAL_DATA_DIR]")
def command(data_dir: Path | None) -> None:
    """Prints the kubeconfig of the administrator of root."""
    file = (data_dir or default_data_dir(os.environ)) / "kubeconfig"
    try:
        click.echo(file.read_text(), nl=False)
    except OSError:
        raise DataDirError(f"there is no kubeconfig in {file.parent}", "start Shoal once: shoal up") from None
