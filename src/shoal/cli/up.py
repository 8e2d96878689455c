"""`shoal up`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from shoal.assemble.datadir import default_data_dir
from shoal.assemble.up import Shoal, UpSettings, run


@click.command(name="up")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where everything is kept. [$SHOAL_DATA_DIR]")
@click.option(
    "--listen", default="127.0.0.1:6443", show_default=True, help="Address and port; port 0 picks one and keeps it."
)
@click.option("--workers", default=0, show_default=True, help="Workers in this process; only 0 for now.")
@click.option("--store", type=click.Choice(["sqlite", "etcd"]), default="sqlite", show_default=True)
def command(data_dir: Path | None, listen: str, workers: int, store: str) -> None:
    """Starts Shoal and serves until it is stopped."""
    if store == "etcd":
        raise click.UsageError("--store etcd is not supported yet; the embedded sqlite store is")
    if workers:
        raise click.UsageError("--workers: this version serves the API only; leave it out, or give 0")
    host, port = split_address(listen)
    run(UpSettings(data_dir or default_data_dir(os.environ), host, port), announce)


def split_address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen}: give an address and a port, such as 127.0.0.1:6443")
    return host.strip("[]") or "0.0.0.0", int(port)


def announce(shoal: Shoal) -> None:
    file = shoal.directory.path / "kubeconfig"
    click.echo(f"Shoal is ready at {shoal.server.url}", err=True)
    click.echo(f"next: kubectl --kubeconfig {file} get namespaces", err=True)
