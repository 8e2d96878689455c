"""What every command that serves the API has in common: its options, and what it says when it is ready."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from shoal.assemble.datadir import default_data_dir
from shoal.assemble.up import AuditSettings, Shoal, UpSettings, run

_OPTIONS = (
    click.option("--data-dir", type=click.Path(path_type=Path), help="Where everything is kept. [$SHOAL_DATA_DIR]"),
    click.option(
        "--listen", default="127.0.0.1:6443", show_default=True, help="Address and port; port 0 picks one and keeps it."
    ),
    click.option("--store", type=click.Choice(["sqlite", "etcd"]), default="sqlite", show_default=True),
    click.option("--etcd-servers", default="", metavar="URLS", help="Not supported yet."),
    click.option("--audit-log-path", default="", metavar="FILE", help="Records every request; - is standard output."),
    click.option(
        "--audit-log-maxsize", default=100, show_default=True, help="Megabytes after which the file is rotated."
    ),
    click.option("--audit-log-maxbackup", default=0, show_default=True, help="Rotated files to keep; 0 keeps all."),
    click.option("--audit-policy-file", type=click.Path(path_type=Path), help="Which requests are recorded: a Policy."),
)


def serving_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def serve(
    data_dir: Path | None,
    listen: str,
    store: str,
    etcd_servers: str,
    audit_log_path: str,
    audit_log_maxsize: int,
    audit_log_maxbackup: int,
    audit_policy_file: Path | None,
    root_profile: str = "",
) -> None:
    if store == "etcd" or etcd_servers:
        raise click.UsageError("--store etcd is not supported yet; the embedded sqlite store is")
    host, port = split_address(listen)
    if audit_policy_file is not None and not audit_log_path:
        raise click.UsageError("--audit-policy-file needs --audit-log-path")
    if audit_log_maxsize < 1 or audit_log_maxbackup < 0:
        raise click.UsageError("--audit-log-maxsize is at least 1, --audit-log-maxbackup at least 0")
    audit = AuditSettings(audit_log_path, audit_log_maxsize, audit_log_maxbackup, audit_policy_file)
    run(UpSettings(data_dir or default_data_dir(os.environ), host, port, audit, root_profile), announce)


def split_address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen}: give an address and a port, such as 127.0.0.1:6443")
    return host.strip("[]") or "0.0.0.0", int(port)


def announce(shoal: Shoal) -> None:
    file = shoal.directory.path / "kubeconfig"
    click.echo(f"Shoal is ready at {shoal.server.url}", err=True)
    click.echo(f"next: kubectl --kubeconfig {file} get namespaces", err=True)
