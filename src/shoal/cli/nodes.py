"""`shoal nodes`."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options.hub import CommandError
from shoal.cli.options.telemetry import telemetry_options
from shoal.client.transport import Unreachable
from shoal.kinds.clusterapi.simulated_node import SIMULATED_LABEL
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.objects.names import is_dns1123_subdomain
from shoal.objects.quantity import Quantity
from shoal.telemetry.logs import print_message


def parse_quantity(context: click.Context, option: click.Parameter, value: str) -> str:
    try:
        amount = Quantity.parse(value)
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}") from None
    if amount.nano <= 0:
        raise click.BadParameter(f"{value}: must be greater than 0")
    return value


@click.command(name="nodes")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Kubeconfig of any API server, not only of Shoal.",
)
@click.option("--context", default="", help="Context of the kubeconfig. [its current context]")
@click.option(
    "--count", default=0, type=click.IntRange(0, 10_000), help="Number of nodes to create; existing ones count."
)
@click.option("--cpu", default="4", show_default=True, callback=parse_quantity, help="CPU of each node.")
@click.option("--memory", default="16Gi", show_default=True, callback=parse_quantity, help="Memory of each node.")
@click.option(
    "--pods", default="110", show_default=True, callback=parse_quantity, help="Maximum number of pods per node."
)
@click.option("--zone", multiple=True, help="Zone of the nodes; several zones are assigned in turn.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="Label of each node; may be given several times.")
@click.option("--prefix", default="simulated", show_default=True, help="Prefix of the names: PREFIX-0, PREFIX-1, …")
@click.option("--events", is_flag=True, help="Write Events about the containers of their pods.")
@click.option("--cleanup", is_flag=True, help="Delete the nodes of --count on exit.")
@telemetry_options
def command(
    *,
    kubeconfig: Path,
    context: str,
    count: int,
    cpu: str,
    memory: str,
    pods: str,
    zone: tuple[str, ...],
    label: tuple[str, ...],
    prefix: str,
    events: bool,
    cleanup: bool,
) -> None:
    """Simulates nodes at an API server until it is stopped: they are Ready, and pods bound to them run.

    Nodes with the label shoal.dev/simulated=true are simulated, no matter which client created them.
    """
    from shoal.assemble.commands.nodes import SimulatedNodesConfig, run_nodes  # noqa: PLC0415  loads for longer than help may take

    name_errors = is_dns1123_subdomain(f"{prefix}-{count}")
    if name_errors:
        raise click.UsageError(f"--prefix {prefix}: {name_errors[0]}")
    if cleanup and not count:
        raise click.UsageError("--cleanup requires --count: only nodes created by this command are deleted")
    capacity = {"cpu": cpu, "memory": memory, "pods": pods}
    config = SimulatedNodesConfig(count, prefix, capacity, zone, dict(map(_parse_label, label)), events, cleanup)
    try:
        run_nodes(kubeconfig, context, config, lambda: print_ready(kubeconfig, context))
    except Unreachable as error:
        hint = f"check the address in {kubeconfig}"
        raise CommandError(f"the API server does not answer: {error}", hint, exit_code=3) from None
    except (Unauthorized, Forbidden) as error:
        raise CommandError(str(error), f"check the credentials in {kubeconfig}", exit_code=4) from None


def _parse_label(label: str) -> tuple[str, str]:
    key, equals, value = label.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--label {label}: give KEY=VALUE")
    return key, value


def print_ready(kubeconfig: Path, context: str) -> None:
    chosen = f" --context {context}" if context else ""
    print_message("nodes are simulated until this process ends")
    print_message(f"next: kubectl --kubeconfig {kubeconfig}{chosen} get nodes -l {SIMULATED_LABEL}=true")
