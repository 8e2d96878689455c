"""`shoal provisioner`."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options.hub import CommandError
from shoal.cli.options.leader_election import leader_election_options
from shoal.cli.options.telemetry import telemetry_options
from shoal.client.transport import Unreachable
from shoal.kinds.karpenter.karpenter import parse_duration
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.telemetry.logs import print_message

PLANNERS, PREFERENCE_POLICIES, MIN_VALUES_POLICIES = (
    ("karpenter", "optimal"),
    ("Respect", "Ignore"),
    ("Strict", "BestEffort"),
)
"""Copies of the values in `assemble.commands.provisioner`, which loads more slowly than help may take; the first of
each policy is the default.
"""
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FEATURE_GATES = {"NodeRepair": "node_repair", "SpotToSpotConsolidation": "spot_to_spot_consolidation"}
"""The feature gates of Karpenter that can be chosen here; NodeOverlay and ReservedCapacity are always on."""


def duration_option(context: click.Context, option: click.Parameter, value: str) -> float:
    parsed_seconds = parse_duration(value)
    if parsed_seconds is None:
        raise click.BadParameter(f"{value}: give a duration, such as 1s or 500ms")
    return parsed_seconds


def parse_cluster_name(context: click.Context, option: click.Parameter, value: str) -> tuple[str, str]:
    namespace, slash, name = value.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise click.BadParameter(f"{value}: give NAMESPACE/NAME")
    return namespace, name


def parse_feature_gates(context: click.Context, option: click.Parameter, value: str) -> dict[str, bool]:
    """Parses upstream's form: NodeRepair=true,SpotToSpotConsolidation=true."""
    enabled = {}
    for each in filter(None, value.split(",")):
        name, _, value_text = each.strip().partition("=")
        if name not in FEATURE_GATES or value_text not in ("true", "false"):
            raise click.BadParameter(f"{each}: give NAME=true or NAME=false, of {', '.join(FEATURE_GATES)}")
        enabled[FEATURE_GATES[name]] = value_text == "true"
    return enabled


@click.command(name="provisioner")
@click.option(
    "--kubeconfig", type=FILE, help="Kubeconfig of the cluster with the pods. [the cluster this process runs in]"
)
@click.option("--context", default="", help="Context of that kubeconfig. [its current context]")
@click.option(
    "--cluster-api-kubeconfig",
    type=FILE,
    help="Kubeconfig of the management cluster with the Machines. [the same cluster]",
)
@click.option("--cluster-api-context", default="", help="Context of that kubeconfig. [its current context]")
@click.option(
    "--cluster",
    required=True,
    callback=parse_cluster_name,
    metavar="NAMESPACE/NAME",
    help="Cluster API Cluster in the management cluster.",
)
@click.option(
    "--planner",
    type=click.Choice(PLANNERS),
    default=PLANNERS[-1],
    show_default=True,
    help="karpenter: Karpenter's algorithm; optimal: the same, then optimized for cost.",
)
@click.option(
    "--batch-idle-duration",
    default="1s",
    show_default=True,
    callback=duration_option,
    help="Idle time after which a batch of pods ends.",
)
@click.option(
    "--batch-max-duration",
    default="10s",
    show_default=True,
    callback=duration_option,
    help="Maximum duration of a batch of pods.",
)
@click.option(
    "--preference-policy",
    type=click.Choice(PREFERENCE_POLICIES),
    default=PREFERENCE_POLICIES[0],
    show_default=True,
    help="Whether scheduling preferences of pods are respected if possible, or ignored.",
)
@click.option(
    "--min-values-policy",
    type=click.Choice(MIN_VALUES_POLICIES),
    default=MIN_VALUES_POLICIES[0],
    show_default=True,
    help="Whether minValues of NodePools are strict, or relaxed if no instance type satisfies them.",
)
@click.option(
    "--feature-gates",
    default="",
    callback=parse_feature_gates,
    metavar="NAME=true,…",
    help=f"Feature gates, of {', '.join(FEATURE_GATES)}.",
)
@click.option("--install-crds", is_flag=True, help="Create the CustomResourceDefinitions that the cluster lacks.")
@leader_election_options
@telemetry_options
def command(
    *,
    kubeconfig: Path | None,
    context: str,
    cluster_api_kubeconfig: Path | None,
    cluster_api_context: str,
    cluster: tuple[str, str],
    planner: str,
    batch_idle_duration: float,
    batch_max_duration: float,
    preference_policy: str,
    min_values_policy: str,
    feature_gates: dict[str, bool],
    install_crds: bool,
    leader_elect: bool,
    leader_elect_namespace: str,
    health_address: tuple[str, int] | None,
) -> None:
    """Provisions nodes for the pods of one cluster, and removes unneeded ones, until it is stopped.

    NodePools are read from the cluster; nodes come from the MachineDeployments of its Cluster API Cluster, which may
    be in a Shoal hub. A Shoal server does this itself for the clusters it hosts.
    """
    from shoal.assemble.commands.provisioner import NotServed, ProvisionerConfig, ProvisionerSettings, run_provisioner  # noqa: PLC0415

    settings = ProvisionerSettings(
        planner=planner,
        batch_idle_seconds=batch_idle_duration,
        batch_max_seconds=batch_max_duration,
        preference_policy=preference_policy,
        min_values_policy=min_values_policy,
        **feature_gates,
    )
    config = ProvisionerConfig(*cluster, settings, install_crds, leader_elect, leader_elect_namespace, health_address)
    try:
        run_provisioner(kubeconfig, context, cluster_api_kubeconfig, cluster_api_context, config, print_ready)
    except NotServed as error:
        chosen = f" --kubeconfig {kubeconfig}" if kubeconfig is not None else ""
        raise CommandError(str(error), f"shoal crds | kubectl{chosen} apply -f -, or --install-crds") from None
    except Unreachable as error:
        hint = "check the address in --kubeconfig or --cluster-api-kubeconfig"
        raise CommandError(f"the API server does not answer: {error}", hint, exit_code=3) from None
    except (Unauthorized, Forbidden) as error:
        raise CommandError(str(error), "the required permissions are in deploy/provisioner", exit_code=4) from None


def print_ready() -> None:
    print_message("provisioning nodes until this process ends")
