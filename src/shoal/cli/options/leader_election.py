"""Options of commands that run controllers at a server of somebody else: leader election and the health address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def parse_address(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if not value:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{value}: give an address and a port, such as 127.0.0.1:8081")
    return host.strip("[]") or "0.0.0.0", int(port)


def leader_election_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--health-address",
            callback=parse_address,
            metavar="HOST:PORT",
            help="Address and port that serve /healthz, /readyz and /metrics.",
        ),
        click.option(
            "--leader-elect-namespace",
            default="kube-system",
            show_default=True,
            help="Namespace of the leader election Lease.",
        ),
        click.option(
            "--leader-elect",
            type=bool,
            is_flag=False,
            flag_value=True,
            default=True,
            show_default=True,
            help="Whether to elect a leader with a Lease: only the leader runs controllers.",
        ),
    ):
        command = option(command)
    return command
