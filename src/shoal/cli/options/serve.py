"""Options of every command that serves the API, and its message when it is ready."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.assemble.storage.datadir import default_data_dir
from shoal.cli.notify import notify_ready
from shoal.cli.options.store import STORE_OPTIONS, store_settings
from shoal.cli.options.telemetry import telemetry_options
from shoal.cli.progress import progress
from shoal.kinds.fleet.endpoint import DEFAULT_RANGE, PortRange, parse_port_range
from shoal.kinds.fleet.logicalcluster import DEFAULT_IDLE_SECONDS
from shoal.kinds.limits import DEFAULT_LIMITS, UNLIMITED, ClusterLimits, parse_limits
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES
from shoal.objects.duration import parse_duration
from shoal.objects.egress import EgressSettings, parse_networks
from shoal.objects.names import is_dns1123_subdomain
from shoal.telemetry.logs import print_message

if TYPE_CHECKING:
    from shoal.assemble.server.hub import BusSettings, InProcessWorkers, ShoalServer

idle_option = click.option(
    "--idle-seconds",
    type=click.FloatRange(min=1),
    default=DEFAULT_IDLE_SECONDS,
    show_default=True,
    help="Seconds without requests after which a logical cluster is evicted from memory.",
)


def _parse_cluster_limits(context: click.Context, option: click.Parameter, value: str) -> ClusterLimits:
    return _parse_limits(value, DEFAULT_LIMITS)


def _parse_root_limits(context: click.Context, option: click.Parameter, value: str) -> ClusterLimits:
    return _parse_limits(value, UNLIMITED)


def _parse_limits(value: str, defaults: ClusterLimits) -> ClusterLimits:
    try:
        return parse_limits(value, defaults)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


cluster_limits_option = click.option(
    "--cluster-limits",
    callback=_parse_cluster_limits,
    default="objects=100000,bytes=256Mi,watches=2000,connections=2000,history=64Mi",
    show_default=True,
    envvar="SHOAL_CLUSTER_LIMITS",
    metavar="LIMITS",
    help="Limits of logical clusters other than root whose spec.limits does not set them; none means no limit. "
    "[$SHOAL_CLUSTER_LIMITS]",
)


def _parse_egress(context: click.Context, option: click.Parameter, value: str) -> EgressSettings:
    try:
        return EgressSettings(parse_networks(value))
    except ValueError as error:
        raise click.BadParameter(f"{error}: give networks such as 10.0.0.0/8,fd00::/8") from None


egress_option = click.option(
    "--allow-egress",
    "egress",
    callback=_parse_egress,
    default="",
    envvar="SHOAL_ALLOW_EGRESS",
    metavar="CIDR,…",
    help="Further networks that webhooks and kubeconfigs of all logical clusters may name. [$SHOAL_ALLOW_EGRESS]",
)


def _parse_duration(context: click.Context, option: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None:
        raise click.BadParameter(f"{value}: give a duration such as 10s or 1m30s")
    return seconds


def _parse_port_range(context: click.Context, option: click.Parameter, value: str) -> PortRange:
    ports = parse_port_range(value)
    if ports is None:
        raise click.BadParameter(f"{value}: give the first and the last port, from 1024 to 65535, such as 20000-24999")
    return ports


def _parse_tls_sans(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    from ipaddress import ip_address  # noqa: PLC0415  help does not need it

    for value in values:
        try:
            ip_address(value)
        except ValueError:
            if is_dns1123_subdomain(value.removeprefix("*.").lower()):
                raise click.BadParameter(f"{value!r}: give a host name or an address, without a port") from None
    return values


_BUS_OPTIONS = (
    click.option(
        "--bus",
        default="watch",
        show_default=True,
        envvar="SHOAL_BUS",
        metavar="watch|URL",
        help="Transport between hub and workers: watch, or a NATS server such as nats://host:4222. [$SHOAL_BUS]",
    ),
    click.option(
        "--bus-creds",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="NATS .creds file, if the URL has no user.",
    ),
)
_SYNC_OPTIONS = (
    click.option(
        "--sync-mode",
        type=click.Choice(["push", "pull", "none"]),
        default="push",
        show_default=True,
        help="Default sync mode of workload Clusters: syncers run in the hub, in the clusters, or are started by hand.",
    ),
    click.option(
        "--resources-to-sync",
        default=",".join(DEFAULT_RESOURCES),
        show_default=True,
        metavar="A,B",
        help="Resources to import from workload Clusters and to sync to them; * means all.",
    ),
    click.option(
        "--auto-publish-apis",
        type=bool,
        is_flag=False,
        flag_value=True,
        default=True,
        show_default=True,
        help="Whether negotiated APIs of workload Clusters are published without approval.",
    ),
)
_SERVE_OPTIONS = (
    click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory. [$SHOAL_DATA_DIR]"),
    click.option(
        "--listen",
        default="127.0.0.1:6443",
        show_default=True,
        envvar="SHOAL_LISTEN",
        help="Address and port to listen on; port 0 chooses a free port once and keeps it. [$SHOAL_LISTEN]",
    ),
    click.option(
        "--advertise-address",
        default="",
        metavar="HOST",
        help="Host name or address for kubeconfigs, if it differs from --listen.",
    ),
    click.option(
        "--peer-advertise-ip",
        default="",
        envvar="SHOAL_PEER_ADVERTISE_IP",
        metavar="IP",
        help="Address of this hub for other hubs on the same etcd, if it differs from --listen. "
        "[$SHOAL_PEER_ADVERTISE_IP]",
    ),
    click.option(
        "--cluster-ports",
        callback=_parse_port_range,
        default=str(DEFAULT_RANGE),
        show_default=True,
        envvar="SHOAL_CLUSTER_PORTS",
        metavar="FIRST-LAST",
        help="Ports for clusters with an address of their own. [$SHOAL_CLUSTER_PORTS]",
    ),
    click.option(
        "--tls-san",
        "tls_sans",
        multiple=True,
        metavar="NAME",
        callback=_parse_tls_sans,
        help="Further host name or address of the serving certificate; may be given more than once.",
    ),
    *STORE_OPTIONS,
    *_BUS_OPTIONS,
    *_SYNC_OPTIONS,
    idle_option,
    cluster_limits_option,
    click.option(
        "--root-limits",
        callback=_parse_root_limits,
        default="",
        envvar="SHOAL_ROOT_LIMITS",
        metavar="LIMITS",
        help="Limits of the logical cluster root, such as objects=1000000; without it there are none. "
        "[$SHOAL_ROOT_LIMITS]",
    ),
    egress_option,
    click.option(
        "--shutdown-delay-duration",
        "shutdown_delay",
        callback=_parse_duration,
        default="0s",
        show_default=True,
        metavar="DURATION",
        help="Time to keep serving after the stop signal, while /readyz fails.",
    ),
    click.option(
        "--worker-processes/--no-worker-processes",
        default=True,
        show_default=True,
        help="Whether to run the processes of Workers with infrastructure process.",
    ),
    click.option(
        "--worker-image",
        default="",
        envvar="SHOAL_WORKER_IMAGE",
        metavar="IMAGE",
        help="Image of Workers with infrastructure kind. [image of this version; $SHOAL_WORKER_IMAGE]",
    ),
    click.option(
        "--audit-log-path", default="", metavar="FILE", help="Audit log of all requests; - means standard output."
    ),
    click.option(
        "--audit-log-maxsize",
        default=100,
        show_default=True,
        help="Size in megabytes at which the audit log is rotated.",
    ),
    click.option(
        "--audit-log-maxbackup", default=0, show_default=True, help="Number of rotated audit logs to keep; 0 keeps all."
    ),
    click.option(
        "--audit-policy-file", type=click.Path(path_type=Path), help="Audit Policy: which requests are logged."
    ),
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
    *,
    data_dir: Path | None,
    listen: str,
    advertise_address: str,
    tls_sans: tuple[str, ...] = (),
    audit_log_path: str,
    audit_log_maxsize: int,
    audit_log_maxbackup: int,
    audit_policy_file: Path | None,
    bus: str = "watch",
    bus_creds: Path | None = None,
    idle_seconds: float = DEFAULT_IDLE_SECONDS,
    cluster_limits: ClusterLimits = DEFAULT_LIMITS,
    root_limits: ClusterLimits = UNLIMITED,
    egress: EgressSettings,
    sync_mode: str = "push",
    resources_to_sync: str = ",".join(DEFAULT_RESOURCES),
    auto_publish_apis: bool = True,
    root_profile: str = "",
    workers: InProcessWorkers | None = None,
    worker_processes: bool = True,
    worker_image: str = "",
    cluster_ports: PortRange = DEFAULT_RANGE,
    shutdown_delay: float = 0.0,
    peer_advertise_ip: str = "",
    outside_loops: frozenset[str] = frozenset(),
    join_secrets: Path | None = None,
    **store: Any,
) -> None:
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.server.hub import AuditConfig, ShoalServerSettings, SyncSettings, run_hub  # noqa: PLC0415
    from shoal.assemble.workers.join_secret_file import join_secret_settings  # noqa: PLC0415

    store_config, bus_config = store_settings(**store), parse_bus(bus, bus_creds)
    host, port = parse_listen_address(listen)
    if audit_policy_file is not None and not audit_log_path:
        raise click.UsageError("--audit-policy-file requires --audit-log-path")
    if audit_log_maxsize < 1 or audit_log_maxbackup < 0:
        raise click.UsageError("--audit-log-maxsize must be at least 1, --audit-log-maxbackup at least 0")
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
        tls_sans=tls_sans,
        peer_advertise_ip=peer_advertise_ip,
        idle_seconds=idle_seconds,
        cluster_limits=cluster_limits,
        root_limits=root_limits,
        egress=egress,
        bus=bus_config,
        sync=SyncSettings(_split_names(resources_to_sync), auto_publish_apis, sync_mode),
        run_worker_processes=worker_processes,
        worker_image=worker_image,
        cluster_ports=cluster_ports,
        shutdown_delay=shutdown_delay,
        outside_loops=outside_loops,
        join_secrets=join_secret_settings(join_secrets) if join_secrets is not None else None,
    )
    with progress("starting") as starting:

        def on_ready(started: ShoalServer) -> None:
            starting.finish()
            print_ready(started)
            notify_ready()

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
