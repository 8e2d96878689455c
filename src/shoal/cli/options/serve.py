"""Options of every command that serves the API, and its message when it is ready."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.assemble.storage.datadir import default_data_dir
from shoal.cli.options.store import STORE_OPTIONS, store_settings
from shoal.cli.options.telemetry import telemetry_options
from shoal.cli.progress import progress
from shoal.kinds.fleet.logicalcluster import DEFAULT_IDLE_SECONDS
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES
from shoal.objects.duration import parse_duration
from shoal.telemetry.logs import print_message

if TYPE_CHECKING:
    from shoal.assemble.server.hub import BusSettings, InProcessWorkers, ShoalServer

idle_option = click.option(
    "--idle-seconds",
    type=click.FloatRange(min=1),
    default=DEFAULT_IDLE_SECONDS,
    show_default=True,
    help="After which a logical cluster that is asked nothing sleeps.",
)


def _parse_duration(context: click.Context, option: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None:
        raise click.BadParameter(f"{value}: give a duration such as 10s or 1m30s")
    return seconds


_BUS_OPTIONS = (
    click.option(
        "--bus",
        default="watch",
        show_default=True,
        envvar="SHOAL_BUS",
        metavar="watch|URL",
        help="How hub and workers speak: watch, or a NATS server such as nats://host:4222. [$SHOAL_BUS]",
    ),
    click.option(
        "--bus-creds",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A NATS .creds file, where the URL has no user.",
    ),
)
_SYNC_OPTIONS = (
    click.option(
        "--sync-mode",
        type=click.Choice(["push", "pull", "none"]),
        default="push",
        show_default=True,
        help="Where the syncers of workload Clusters run that do not say it: here, in the clusters, or by hand.",
    ),
    click.option(
        "--resources-to-sync",
        default=",".join(DEFAULT_RESOURCES),
        show_default=True,
        metavar="A,B",
        help="What is looked for in workload Clusters, and copied to them; * is everything.",
    ),
    click.option(
        "--auto-publish-apis",
        type=bool,
        is_flag=False,
        flag_value=True,
        default=True,
        show_default=True,
        help="Whether an API that clusters offer is served without anybody saying so.",
    ),
)
_SERVE_OPTIONS = (
    click.option("--data-dir", type=click.Path(path_type=Path), help="Where everything is kept. [$SHOAL_DATA_DIR]"),
    click.option(
        "--listen",
        default="127.0.0.1:6443",
        show_default=True,
        envvar="SHOAL_LISTEN",
        help="Address and port; port 0 picks one and keeps it. [$SHOAL_LISTEN]",
    ),
    click.option(
        "--advertise-address",
        default="",
        metavar="HOST",
        help="What kubeconfigs name, where it is not the listened one.",
    ),
    *STORE_OPTIONS,
    *_BUS_OPTIONS,
    *_SYNC_OPTIONS,
    idle_option,
    click.option(
        "--shutdown-delay-duration",
        "shutdown_delay",
        callback=_parse_duration,
        default="0s",
        show_default=True,
        metavar="DURATION",
        help="How long it serves on when it is told to stop, while /readyz fails.",
    ),
    click.option(
        "--worker-processes/--no-worker-processes",
        default=True,
        show_default=True,
        help="Run the processes of Workers with infrastructure process.",
    ),
    click.option(
        "--worker-image",
        default="",
        envvar="SHOAL_WORKER_IMAGE",
        metavar="IMAGE",
        help="Of Workers with infrastructure kind. [that of this version; $SHOAL_WORKER_IMAGE]",
    ),
    click.option("--audit-log-path", default="", metavar="FILE", help="Records every request; - is standard output."),
    click.option(
        "--audit-log-maxsize", default=100, show_default=True, help="Megabytes after which the file is rotated."
    ),
    click.option("--audit-log-maxbackup", default=0, show_default=True, help="Rotated files to keep; 0 keeps all."),
    click.option("--audit-policy-file", type=click.Path(path_type=Path), help="Which requests are recorded: a Policy."),
)


def bus_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_BUS_OPTIONS):
        command = option(command)
    return command


def serve_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = telemetry_options(command)
    for option in reversed(_SERVE_OPTIONS):
        command = option(command)
    return command


def serve(
    data_dir: Path | None,
    listen: str,
    advertise_address: str,
    audit_log_path: str,
    audit_log_maxsize: int,
    audit_log_maxbackup: int,
    audit_policy_file: Path | None,
    bus: str = "watch",
    bus_creds: Path | None = None,
    idle_seconds: float = DEFAULT_IDLE_SECONDS,
    sync_mode: str = "push",
    resources_to_sync: str = ",".join(DEFAULT_RESOURCES),
    auto_publish_apis: bool = True,
    root_profile: str = "",
    workers: InProcessWorkers | None = None,
    worker_processes: bool = True,
    worker_image: str = "",
    shutdown_delay: float = 0.0,
    **store: Any,
) -> None:
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.server.hub import AuditConfig, ShoalServerSettings, SyncSettings, run_hub  # noqa: PLC0415

    store_config, bus_config = store_settings(**store), parse_bus(bus, bus_creds)
    host, port = parse_listen_address(listen)
    if audit_policy_file is not None and not audit_log_path:
        raise click.UsageError("--audit-policy-file needs --audit-log-path")
    if audit_log_maxsize < 1 or audit_log_maxbackup < 0:
        raise click.UsageError("--audit-log-maxsize is at least 1, --audit-log-maxbackup at least 0")
    audit = AuditConfig(audit_log_path, audit_log_maxsize, audit_log_maxbackup, audit_policy_file)
    directory = data_dir or default_data_dir(os.environ)
    settings = ShoalServerSettings(
        directory,
        host,
        port,
        audit,
        root_profile,
        store_config,
        advertise_address,
        idle_seconds=idle_seconds,
        bus=bus_config,
        sync=SyncSettings(_split_names(resources_to_sync), auto_publish_apis, sync_mode),
        run_worker_processes=worker_processes,
        worker_image=worker_image,
        shutdown_delay=shutdown_delay,
    )
    with progress("starting") as starting:

        def on_ready(started: ShoalServer) -> None:
            starting.finish()
            print_ready(started)

        run_hub(settings, on_ready, workers)


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_bus(bus: str, credentials: Path | None) -> BusSettings:
    from shoal.assemble.server.hub import bus_settings  # noqa: PLC0415

    try:
        return bus_settings(bus, credentials)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def parse_listen_address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen}: give an address and a port, such as 127.0.0.1:6443")
    return host.strip("[]") or "0.0.0.0", int(port)


def print_ready(shoal: ShoalServer) -> None:
    file = shoal.directory.path / "kubeconfig"
    print_message(f"Shoal is ready at {shoal.server.url}")
    print_message(f"dashboard: {shoal.server.url}/ui/ (log in with the kubeconfig below)")
    print_message(f"next: kubectl --kubeconfig {file} get namespaces")
