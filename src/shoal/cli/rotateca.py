"""`shoal rotate-ca`."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options.hub import CommandError, call_hub, hub_options
from shoal.cli.options.store import data_dir_or_default


@click.command(name="rotate-ca")
@click.option("--cluster", default="", metavar="NAME", help="Rotate the keys of this ManagedCluster.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the ManagedCluster.")
@click.option("--logical-cluster", default="", metavar="NAME", help="Rotate the keys of this LogicalCluster.")
@click.option("--server", is_flag=True, help="Rotate the certificate authority of the server, in its data directory.")
@click.option("--finish", is_flag=True, help="Stop trusting the former keys.")
@click.option(
    "--timeout", "timeout_seconds", default=120.0, show_default=True, help="Seconds to wait until it is in force."
)
@hub_options
def command(
    *,
    cluster: str,
    namespace: str,
    logical_cluster: str,
    server: bool,
    finish: bool,
    timeout_seconds: float,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Rotates the keys of a cluster, or the certificate authority of the server, in two steps.

    The first step creates new keys. Clients that know only the former ones continue to work. The second step, with
    --finish, ends that: certificates and tokens of the former keys are refused.
    """
    # An upgrade from 0.1 is finished without a target.
    server = server or (finish and not cluster and not logical_cluster)
    if sum((bool(cluster), bool(logical_cluster), server)) != 1:
        raise click.UsageError("give one of --cluster, --logical-cluster and --server")
    if server:
        _rotate_server_ca(data_dir_or_default(data_dir), finish)
        return
    # Help does not need the client.
    from shoal.assemble.commands.rotate_keys import RotationError, rotate_keys  # noqa: PLC0415

    name, namespace = cluster or logical_cluster, namespace if cluster else ""
    try:
        state = call_hub(
            kubeconfig,
            data_dir,
            lambda hub: rotate_keys(hub, name, namespace, finish=finish, timeout_seconds=timeout_seconds),
            "waiting for the rotation",
        )
    except RotationError as error:
        raise CommandError(str(error), error.hint) from None
    former = "trusted until --finish" if state.trust_former else "refused"
    click.echo(f"keys of generation {state.generation} are in force; former keys are {former}", err=True)


def _rotate_server_ca(data_dir: Path, finish: bool) -> None:
    # Help does not need the server.
    from shoal.assemble.commands import rotate_ca  # noqa: PLC0415

    if finish:
        removed = rotate_ca.finish(data_dir)
        text = f"removed {' and '.join(removed)}" if removed else "there is no former certificate authority"
    else:
        rotate_ca.begin(data_dir)
        text = "the new certificate authority is in force; the former one is trusted until --finish"
    click.echo(text, err=True)
