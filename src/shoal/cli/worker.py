"""`shoal worker`."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from shoal.assemble.storage.datadir import default_data_dir
from shoal.cli.options.kind import kind_options, provided_kind_images
from shoal.cli.options.serve import (
    bus_options,
    cluster_limits_option,
    egress_option,
    idle_option,
    parse_bus,
    parse_listen_address,
)
from shoal.cli.options.store import store_options, store_settings
from shoal.cli.options.telemetry import telemetry_options
from shoal.kinds.fleet.worker_join import name_error, parse_token
from shoal.kinds.limits import ClusterLimits
from shoal.objects.egress import EgressSettings
from shoal.telemetry.logs import print_message

if TYPE_CHECKING:
    from shoal.assemble.server.worker import HubTarget, WorkerServer

Object = dict[str, Any]


@click.command(name="worker")
@click.option(
    "--hub-kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Kubeconfig of the hub: with a join token (shoal join-token create -o kubeconfig), or an administrator's.",
)
@click.option("--hub", default="", metavar="URL", help="URL of the hub, instead of a kubeconfig.")
@click.option(
    "--token",
    default="",
    envvar="SHOAL_JOIN_TOKEN",
    help="Join token; needed only for the first start. [$SHOAL_JOIN_TOKEN]",
)
@click.option("--ca-hash", default="", metavar="sha256:…", help="Hash of the hub's certificate authority.")
@click.option("--name", default="", help="Name of the Worker at the hub; fixed per data directory. [the host's name]")
@click.option(
    "--capacity",
    type=click.IntRange(0),
    help="Maximum number of clusters to host. [as the Worker object says, 100 at first]",
)
@click.option("--location", help="Location, which ManagedClusters can require. [as the Worker object says]")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Data directory of the Worker. [workers/NAME in Shoal's]"
)
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    help="Address and port of the Worker's API; port 0 chooses a free port once and keeps it.",
)
@kind_options
@store_options
@bus_options
@idle_option
@cluster_limits_option
@egress_option
@telemetry_options
@click.option(
    "--supervised", is_flag=True, hidden=True, help="Started by a hub: exits when its standard input is closed."
)
def command(
    *,
    hub_kubeconfig: Path | None,
    hub: str,
    token: str,
    ca_hash: str,
    name: str,
    capacity: int | None,
    location: str | None,
    data_dir: Path | None,
    listen: str,
    kind: bool,
    kind_images: dict[str, str],
    idle_seconds: float,
    cluster_limits: ClusterLimits,
    egress: EgressSettings,
    bus: str,
    bus_creds: Path | None,
    supervised: bool,
    **store: Any,
) -> None:
    """Joins a hub and hosts the control planes of ManagedClusters until it is stopped.

    After it has joined, it authenticates with a certificate in its data directory, which it renews: the hub and the
    token are not needed again.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.server.worker import WorkerOptions, run_worker  # noqa: PLC0415

    hub_target = hub_target_of(hub_kubeconfig, hub, token, ca_hash)
    name = name or socket.gethostname().partition(".")[0].lower()
    invalid_name = name_error(name)
    if invalid_name:
        raise click.UsageError(f"--name {name}: {invalid_name}")
    host, port = parse_listen_address(listen)
    where = data_dir or default_data_dir(os.environ) / "workers" / name
    server_options = (host, port, store_settings(**store), idle_seconds, parse_bus(bus, bus_creds), egress, supervised)
    options = WorkerOptions(
        *(hub_target, where, name, capacity, location, *server_options),
        cluster_limits=cluster_limits,
        kind_images=provided_kind_images(kind=kind, kind_images=kind_images),
        on_registered=print_registered if not supervised else lambda before, after: None,
    )
    run_worker(options, print_ready)


def hub_target_of(kubeconfig: Path | None, hub_url: str, token: str, ca_hash: str) -> HubTarget:
    """Returns the hub that the flags name. Raises UsageError if they are invalid."""
    from shoal.assemble.server.worker import HubTarget  # noqa: PLC0415

    if kubeconfig is not None:
        if hub_url or ca_hash:
            raise click.UsageError("--hub and --ca-hash cannot be used with --hub-kubeconfig")
        return HubTarget(kubeconfig)
    if not hub_url:
        if ca_hash:
            raise click.UsageError("--ca-hash requires --hub")
        return HubTarget()
    parts = urlsplit(hub_url)
    if parts.scheme != "https" or not parts.hostname:
        raise click.UsageError(f"--hub {hub_url}: give a URL such as https://10.0.0.1:6443")
    digits = ca_hash.removeprefix("sha256:").lower()
    if len(digits) != 64 or set(digits) - set("0123456789abcdef") or not ca_hash.startswith("sha256:"):
        raise click.UsageError("--hub requires --ca-hash sha256:… as shoal join-token create prints it")
    if token and parse_token(token) is None:
        raise click.UsageError("--token: a join token is 6 letters or digits, a dot, and 16 letters or digits")
    return HubTarget(None, hub_url, token, f"sha256:{digits}")


def print_registered(before: Object, after: Object) -> None:
    """Prints what the worker offers, and what its flags have changed."""
    name, then, now = after["metadata"]["name"], before.get("spec") or {}, after.get("spec") or {}
    for flag in ("capacity", "location"):
        if (then.get(flag) or "") != (now.get(flag) or ""):
            print_message(f"--{flag} changes the {flag} of worker {name}: {then.get(flag) or 'none'} before")
    place = f" in location {now['location']}" if now.get("location") else ""
    print_message(f"worker {name} hosts up to {now.get('capacity')} clusters{place}")


def print_ready(worker: WorkerServer) -> None:
    print_message(f"the worker's own API is at {worker.shoal.server.url}")
