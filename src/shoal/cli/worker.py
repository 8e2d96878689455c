"""`shoal worker`."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import click

from shoal.assemble.datadir import default_data_dir
from shoal.assemble.worker import Worker, WorkerProcess, run_worker
from shoal.cli.serving import split_address, store_options, store_settings
from shoal.objects.names import is_dns1123_label

LONGEST_NAME = 56


@click.command(name="worker")
@click.option(
    "--hub-kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Where the hub is, and who this worker is there.",
)
@click.option("--name", default="", help="Of the Worker at the hub; belongs to the data directory. [the host's name]")
@click.option("--capacity", default=100, show_default=True, type=click.IntRange(0), help="Clusters it hosts at most.")
@click.option("--location", default="", help="Where it is, as ManagedClusters ask for it.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where it keeps its clusters. [workers/NAME in Shoal's]"
)
@click.option(
    "--listen", default="127.0.0.1:0", show_default=True, help="Of its own API; port 0 picks one and keeps it."
)
@store_options
def command(
    hub_kubeconfig: Path, name: str, capacity: int, location: str, data_dir: Path | None, listen: str, **store: Any
) -> None:
    """Joins a hub and hosts the control planes of ManagedClusters until it is stopped."""
    name = name or socket.gethostname().partition(".")[0].lower()
    wrong = is_dns1123_label(name)
    if wrong:
        raise click.UsageError(f"--name {name}: {wrong[0]}")
    if len(name) > LONGEST_NAME:
        raise click.UsageError(f"--name {name}: at most {LONGEST_NAME} characters")
    host, port = split_address(listen)
    where = data_dir or default_data_dir(os.environ) / "workers" / name
    stored = store_settings(**store)
    run_worker(WorkerProcess(hub_kubeconfig, where, name, capacity, location, host, port, stored), announce)


def announce(worker: Worker) -> None:
    click.echo(f"the worker's own API is at {worker.shoal.server.url}", err=True)
