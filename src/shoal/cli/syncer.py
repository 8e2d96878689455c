"""`shoal syncer`."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options.hub import CommandError
from shoal.cli.options.leader_election import parse_address
from shoal.cli.options.telemetry import telemetry_options
from shoal.client.transport import Unreachable
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.telemetry.logs import print_message

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(name="syncer")
@click.option(
    "--from-kubeconfig",
    type=FILE,
    required=True,
    help="Kubeconfig of the hub. shoal join-cluster creates one with minimal permissions.",
)
@click.option("--to-kubeconfig", type=FILE, help="Kubeconfig of the cluster. [the cluster this process runs in]")
@click.option("--to-context", default="", help="Context of that kubeconfig. [its current context]")
@click.option("--cluster", required=True, metavar="NAME", help="Name of the workload Cluster on the hub.")
@click.option(
    "--resources-to-sync",
    default=",".join(DEFAULT_RESOURCES),
    show_default=True,
    metavar="A,B",
    help="Resources of the cluster to import into the hub; * means all.",
)
@click.option(
    "--health-address",
    callback=parse_address,
    metavar="HOST:PORT",
    help="Address and port that serve /healthz, /readyz and /metrics.",
)
@telemetry_options
def command(
    from_kubeconfig: Path,
    to_kubeconfig: Path | None,
    to_context: str,
    cluster: str,
    resources_to_sync: str,
    health_address: tuple[str, int] | None,
) -> None:
    """Syncs one workload Cluster until it is stopped: objects from the hub to the cluster, status back to the hub.

    With --sync-mode push the hub runs the syncers itself; this command is for the modes pull and none.
    """
    from shoal.assemble.commands.syncer import run_syncer  # noqa: PLC0415  loads for longer than help may take

    resources = tuple(name.strip() for name in resources_to_sync.split(",") if name.strip())
    try:
        run_syncer(
            *(from_kubeconfig, to_kubeconfig, to_context, cluster, resources),
            lambda: print_ready(cluster),
            health_address,
        )
    except Unreachable as error:
        raise CommandError(str(error), exit_code=3) from None
    except (Unauthorized, Forbidden) as error:
        raise CommandError(str(error), f"check the credentials in {from_kubeconfig}", exit_code=4) from None


def print_ready(cluster: str) -> None:
    print_message(f"syncing {cluster} until this process ends")
